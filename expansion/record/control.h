/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_CONTROL_H
#define EXPANSION_RECORD_CONTROL_H
/* What an operator asks of a running job: fields of its record, which its driver reads several times a
 * second, and the next driver finds if that one dies. A new job begins without them. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/view/handle.h"

struct control {
    bool abort;
    bool hold;                /* do not switch before the word is given */
    bool rollback;            /* back to the generation before */
    bool finish;              /* do not wait for the end of the grace time */
    bool paused;              /* read no rows, change no view but for layers */
    uint64_t rows_per_second; /* 0: no limit */
};

/* What the record says now. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err control_read(struct handle *f, struct control *out, struct error *e);

enum control_wish {
    WISH_ABORT,    /* the new generation leaves; before the cutover */
    WISH_CUTOVER,  /* switch as soon as it is built and verified: takes back a hold */
    WISH_ROLLBACK, /* read the old generation again, and hold; after the cutover */
    WISH_FINISH,   /* let the old generation go now; after the cutover */
    WISH_PAUSE,
    WISH_RESUME,
    WISH_THROTTLE /* with the rows a second */
};

/* The id of the job in the record; 0: there is none, or its driver knew of no ids. */
MUST_CHECK enum err control_job(struct handle *f, uint64_t *id, struct error *e);
/* Under the mutex: the id of a job that is unfinished and that the next driver goes on with, whatever it was
 * started for; 0: there is none, or its driver knew of no ids. */
MUST_CHECK enum err control_unfinished(struct handle *f, uint64_t *id, struct error *e);

/* Ask. In one step with a look at the view and the mutex: what is refused has changed nothing, what is taken
 * will be read by the job's driver or the next one. ERR_NOT_FOUND: no such filter. ERR_CONFLICT: no job is
 * running, or it is past the point; the text says which. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err control_ask(struct handle *f, enum control_wish wish, uint64_t value, struct error *e);
#endif
