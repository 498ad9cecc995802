/* A pass whose statistics were beyond their limits, while fresh seeds run in its place. */
#ifndef AT_DOUBT_H
#define AT_DOUBT_H

#include "harness/judge/suspect.h"
#include "harness/run/slot.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct at_doubt {
    const at_item *item; /* NULL: none */
    at_item fresh;       /* the item with another seed */
    at_case c;
    at_suspect suspect;
    at_verdict verdict; /* of the first run; settled once no seed is left to run */
    char asked[AT_ENGINE_NAME], engine[AT_ENGINE_NAME], engines[AT_SLOT_ENGINES_TEXT];
} at_doubt;

/* Puts the first fresh seed of the slot's item into the slot. */
void at_doubt_begin(at_doubt *d, at_slot *s, const at_verdict *v, const at_exceeded *exceeded);

/* Takes the run that has ended; true: the next seed is in the slot. Otherwise the verdict is
 * settled and the slot holds what it did before the doubt. */
bool at_doubt_add(at_doubt *d, at_slot *s, const at_limits *limits);

#ifdef __cplusplus
}
#endif
#endif
