/* Where the tensors of a case stand in memory: shapes, strides, offsets and shared buffers, worked
 * out without any memory. */
#ifndef AT_STRIDES_H
#define AT_STRIDES_H

#include "harness/problem/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A gap of stride=row_gap and head_gap, in elements: 16, 32 or 64 bytes. Bytes that stride=offset
 * puts before the first element: rows stay aligned to 16 bytes and to no more. */
enum { AT_STRIDE_GAP = 16, AT_STRIDE_OFFSET_BYTES = 16 };

/* One tensor of a case. Units are elements.
 *
 * layout  bshd [b s h d], sbhd [s b h d], bhsd [b h s d], thd [t h d] with `start` for the tokens
 *         (stride[0] = 0, see at_tensor). lse, drop [b h s .], amask, bias, dbias [b|1 h|1 sq skv]
 *         and sink, dsink [1 h 1 1] are dense in that order whatever the layout.
 * pack    q k v (k v) are slices of one buffer, dq dk dv (dk dv) of another: their heads stand
 *         beside each other (3h, 2h: [.. 3 h d], bhsd [b 3 h s d]) or alternate (h3, h2:
 *         [.. h 3 d], bhsd [b h 3 s d]). `home` is the first slice's tensor for all of them.
 * stride  row_gap: after each row of the sequence dimension, i.e. between tokens (bshd, sbhd, thd)
 *         or rows of a head (bhsd), AT_STRIDE_GAP elements are unused; head_gap: the same after
 *         each head, of a token or (bhsd) as a whole; offset: AT_STRIDE_OFFSET_BYTES stand before
 *         the first element. These three hold for q k v do o dq dk dv. expand_kv: all heads of k
 *         (and of v) share the memory of head 0, stride[1] = 0; one single head that is neither
 *         packed nor paged shares sequence 0's rows between sequences instead, stride[0] = 0; dk
 *         and dv are ordinary. dout_other: do stands as bhsd where the layout is bshd, as bshd
 * where it is sbhd or bhsd, and as [h t d] where it is thd. page    k and v stand as [pages page h
 * d], or [pages h page d] for bhsd, whatever the layout of q (stride[0] is a page); pages [b 1 1
 * pages_wide] i32 is the table. There are b * pages_wide pages and a quarter more (at least one)
 * that no sequence uses. */
typedef struct at_strides {
    bool exists; /* the case has the tensor */
    at_dtype dtype;
    int64_t shape[4], stride[4]; /* as in at_tensor */
    int64_t offset;              /* of element 0 from the start of its buffer */
    at_tensor_id home;           /* tensor that owns the buffer: itself, or the first slice */
    int64_t elements;            /* of the whole buffer; -1 beyond 2^63 */
} at_strides;

AT_API void at_case_strides(at_strides *out, const at_case *c, at_tensor_id id);

/* Pages of a sequence, and of the whole cache; 0 where page=0. */
AT_API int64_t at_case_pages_wide(const at_case *c);
AT_API int64_t at_case_pages(const at_case *c);

#ifdef __cplusplus
}
#endif
#endif
