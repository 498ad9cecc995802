/* How likely a user meets a box: attention of published models, with weights. CORPUS/popular.json.
 * Inside the folder. */
#ifndef AT_POPULAR_H
#define AT_POPULAR_H

#include "harness/select/boxes.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_POPULAR_MAX = 64 };

/* A model meets a case of its head dims, kind of mask and grouping of heads; "features" say how
 * common the rest of the case is, in percent. */
typedef struct at_popular at_popular;

/* *out is NULL when the corpus has no such file: every score is 0 then. AT_INVALID with file and
 * entry. The region must outlive it. */
at_status at_popular_open(at_popular **out, const char *corpus, const at_region *region,
                          at_error *err) AT_MUST_CHECK;
void at_popular_close(at_popular *popular); /* NULL is legal */

/* Fills score and models of the box, and takes its likeliest case as the example where a model
 * meets it. mark [region->cells]. Score: of all the models' weight, the percentage that meets the
 * box, each at its likeliest case; cases whose mark lacks AT_MARK_WINS count a tenth. */
void at_popular_score(const at_popular *popular, const uint32_t *mark, at_box *b);

const char *at_popular_model(const at_popular *popular, size_t i);

#ifdef __cplusplus
}
#endif
#endif
