/* SPDX-License-Identifier: MIT */
#include "migrate/build/periodic.h"

#include "base/clock.h"
#include "migrate/build/log_output.h"

enum { INTERVAL_US = 50 * 1000 };

enum err periodic_call(struct periodic *p, struct error *e)
{
    if (p->fn == NULL || clock_mono_us() < p->due_us)
        return ERR_OK;
    enum err code = p->output == NULL ? ERR_OK : log_output_wait(p->output, e);
    if (code == ERR_OK)
        code = p->fn(p->arg, e);
    p->due_us = clock_mono_us() + INTERVAL_US;
    return code;
}
