/* SPDX-License-Identifier: MIT */
#include "service/resp/client_count.h"

#include "service/resp/worker.h"

static void tell(struct client *c, const struct counted *what, enum outcome outcome, uint64_t us,
                 const struct spent *spent)
{
    struct spent all = spent == NULL ? (struct spent){0} : *spent;
    all.came_us = what->came_us;
    if (all.asked_us != 0 && all.answered_us == 0)
        all.answered_us = what->came_us + us;
    meter_slow(c->worker->meter);
    slow_log(&(struct slow){.client = c->address,
                            .what = c->worker->commands->meter->label(what->row, 0),
                            .outcome = outcome_name(outcome),
                            .us = us,
                            .spent = &all,
                            .keys = c->worker->keys});
}

void client_count(struct client *c, const struct counted *what, enum outcome outcome, size_t times,
                  const struct spent *spent)
{
    if (what->row == METER_NO_ROW || times == 0)
        return;
    uint64_t now = worker_now(c->worker), us = now > what->came_us ? now - what->came_us : 0;
    meter_count_many(c->worker->meter, what->row, outcome, us, times);
    for (; times > 0 && slow_is(c->worker->config, us); times--)
        tell(c, what, outcome, us, spent);
}
