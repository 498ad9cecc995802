/* Which rows and keys of a large case are computed. */
#ifndef AT_SAMPLE_H
#define AT_SAMPLE_H

#include "reference/fast.h"

/* Multiply-adds of the whole answer, as the formula reads. */
double at_sample_work(const at_fast *f);

/* Opens the gold tensors for sampled rows of every head and sampled keys of some units (f->units),
 * so that the whole costs some `limit` multiply-adds. Always among them: the first and the last row
 * and key of each sequence; as many as fit of: multiples of 16, 64, 128, 256 and their neighbours,
 * the rows and keys where the mask's shape changes; the rest at random. A unit's gradients need LSE
 * and D of all rows that see a sampled key: `stream` lists them. Where all units would cost more
 * than `limit` for that, the first, the last and some between are taken; at least one. */
typedef struct at_sample {
    int64_t (*stream)[3];
    int64_t n_stream;
} at_sample;
at_status at_sample_open(at_sample *out, at_fast *f, double limit, bool no_scale, at_arena *arena,
                         at_error *err) AT_MUST_CHECK;

/* Elements of dBias that are held at once. */
#define AT_SAMPLE_BIAS 4e6

/* Opens dBias, where the case has it, for as many rows as cost a sixteenth of the limit and fit
 * into memory: all, or sampled ones. */
at_status at_sample_bias(at_fast *f, double limit, bool no_scale, at_arena *arena,
                         at_error *err) AT_MUST_CHECK;

/* Elements held beside all live elements. */
double at_sample_share(const at_gold *gold);

#endif
