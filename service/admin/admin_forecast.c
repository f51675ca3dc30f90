/* SPDX-License-Identifier: MIT */
/* The part of TB.STATUS that says when the next expansion is to be expected. */
#include "base/clock.h"
#include "expansion/decide/forecast.h"
#include "service/admin/admin.h"
#include "service/core/field.h"
#include "service/control/filter_states.h"

void admin_forecast_fields(struct fields *f, const struct config_filter *c,
                           const struct controller_note *note, bool known, const struct view *v,
                           uint64_t items)
{
    struct schedule schedule;
    struct window window;
    struct error e;
    time_t at = 0;
    enum forecast_reason reason = FORECAST_NONE;
    if (known) {
        bool scheduled = c->schedule[0] != '\0' && schedule_parse(&schedule, c->schedule, &e) == ERR_OK;
        bool windowed = window_parse(&window, c->window, &e) == ERR_OK;
        struct forecast_input in = {.items = items > note->rows.rows ? items : note->rows.rows,
                                    .capacity = view_current(v)->capacity,
                                    .expand_at = c->expand_at,
                                    .items_per_second = note->growth,
                                    .schedule = scheduled ? &schedule : NULL,
                                    .window = windowed ? &window : NULL};
        reason = forecast_expansion(&at, &in, (time_t)(clock_wall_us() / 1000000));
    }
    field_time(f, "rebuild_expected_at", reason == FORECAST_NONE ? 0 : (uint64_t)at * 1000);
    field_text(f, "rebuild_expected_by", forecast_reason_name(reason));
}
