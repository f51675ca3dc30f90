/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_CONTROL_H
#define EXPANSION_RECORD_CONTROL_H
/* What others than its driver read of a job's record, and operators' requests to a running job: fields of it.
 * Its driver reads them several times a second; if it dies, the next driver finds them. A new job begins
 * without them. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "expansion/record/checkpoint.h"
#include "shard/view/handle.h"

enum { RECORD_FIELD_MAX = 64 };

/* Read the record of the last job in place of what @r has. @broken: a field that no driver wrote, or "ranges"
 * if the fields do not fit together; "": it is sound. */
MUST_CHECK enum err record_load(struct handle *f, struct record *r, char broken[RECORD_FIELD_MAX],
                                struct error *e);

/* --- requests --- */

struct control {
    bool abort;
    bool hold;                /* do not switch before an operator requests the cutover */
    bool rollback;            /* switch back to the previous generation */
    bool finish;              /* do not wait for the end of the grace time */
    bool paused;              /* read no rows and change no view, except to add layers */
    uint64_t rows_per_second; /* 0: no limit */
};

/* Read the requests. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err control_read(struct handle *f, struct control *out, struct error *e);

enum control_wish {
    WISH_ABORT,    /* remove the new generation; before the cutover */
    WISH_CUTOVER,  /* switch once it is built and verified: cancels a hold */
    WISH_ROLLBACK, /* read the old generation again, and hold; after the cutover */
    WISH_FINISH,   /* remove the old generation now; after the cutover */
    WISH_PAUSE,
    WISH_RESUME,
    WISH_THROTTLE /* @value: rows per second */
};

/* The id of the job in the record; 0: no job, or its driver wrote no id. */
MUST_CHECK enum err control_job(struct handle *f, uint64_t *id, struct error *e);
/* Call it with the mutex held. The id of an unfinished job, which the next driver continues, whatever it was
 * started for; 0: no such job, or its driver wrote no id. */
MUST_CHECK enum err control_unfinished(struct handle *f, uint64_t *id, struct error *e);

/* Make a request to @job, as control_job() told: whoever sleeps before this asks nothing of a later job. One
 * script checks view, mutex and id and writes the request: a rejected request has changed nothing, an
 * accepted one will be read by the job's driver or the next one. ERR_NOT_FOUND: no such filter. ERR_CONFLICT:
 * no job is running, or another one, or it is past that point; the text says which. ERR_UNREACHABLE,
 * ERR_TIMEOUT. */
MUST_CHECK enum err control_ask(struct handle *f, enum control_wish wish, uint64_t value, uint64_t job,
                                struct error *e);
#endif
