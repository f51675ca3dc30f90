/* SPDX-License-Identifier: MIT */
/* TB.DOCTOR: the doctor's findings, as a list of maps. */
#include "service/admin/admin.h"
#include "service/doctor/doctor.h"
#include "service/protocol/field.h"

static void take_finding(void *arg, const struct doctor_finding *finding)
{
    struct fields *all = arg, f;
    fields_begin(&f, all->reply.protocol);
    field_text(&f, "probe", finding->probe);
    field_text(&f, "subject", finding->subject);
    field_text(&f, "state", doctor_state_name(finding->state));
    field_text(&f, "found", finding->found);
    field_text(&f, "remedy", finding->remedy);
    fields_end(&f, &all->reply);
    all->count++;
}

enum err admin_doctor(struct admin *a, struct admin_call *call UNUSED, struct reply *r,
                      struct error *e UNUSED)
{
    struct fields all;
    fields_begin(&all, r->protocol);
    const struct doctor_options o = {a->config, &a->service->nodes, a->service->version, take_finding, &all};
    doctor_run(&o);
    fields_end_list(&all, r);
    return ERR_OK;
}
