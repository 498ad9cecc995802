/* cuDNN's SDPA through its C++ frontend, behind a C ABI that includes nothing of attest: so the
 * slow file (cudnn.cpp, one shared object) is built again only when this page or itself changes. */
#ifndef AT_CUDNN_H
#define AT_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    AT_CUDNN_ABI = 1,
    AT_CUDNN_PLANS_MAX = 48,
    AT_CUDNN_NAME = 96,
    AT_CUDNN_MESSAGE = 512,
    AT_CUDNN_CODE = 48
};

typedef enum at_cudnn_type {
    AT_CUDNN_F32,
    AT_CUDNN_F16,
    AT_CUDNN_BF16,
    AT_CUDNN_E4M3,
    AT_CUDNN_E5M2
} at_cudnn_type;

/* Which of the frontend's two nodes makes the graph; AUTO is its own choice. */
typedef enum at_cudnn_node { AT_CUDNN_AUTO, AT_CUDNN_COMPOSITE, AT_CUDNN_UNIFIED } at_cudnn_node;

/* How far a graph is taken. Each stage includes those before it. */
typedef enum at_cudnn_stage {
    AT_CUDNN_S0_CHOICE,     /* graph.sdpa(): the implementation is chosen */
    AT_CUDNN_S1_VALIDATE,   /* the frontend's rules; needs no library call beyond its version */
    AT_CUDNN_S2_GRAPH,      /* build_operation_graph */
    AT_CUDNN_S3_HEURISTICS, /* create_execution_plans: lists engine configurations */
    AT_CUDNN_S4_SUPPORT,    /* check_support */
    AT_CUDNN_S5_PLANS,      /* build_plan_at_index of every plan: run-time compilation */
    AT_CUDNN_STAGES
} at_cudnn_stage;

/* Memory order of one tensor, logical axes [batch heads len dim]; strides in elements. */
typedef struct at_cudnn_tensor {
    int64_t dim[4], stride[4];
} at_cudnn_tensor;

/* One SDPA graph. Bounds are cuDNN's own: a row keeps the keys col < row + 1 + right and
 * col > row - left (left counts the diagonal; the caller converts). */
typedef struct at_cudnn_spec {
    bool backward;
    at_cudnn_type type, out_type;
    at_cudnn_node node;
    int sm;                  /* 90 */
    const char *device_json; /* device properties; needed from S2 on without a GPU */
    const char *heuristics;  /* letters of A, B, F (fallback), in order: "AF" */

    at_cudnn_tensor q, k, v, o; /* k and v: the containers when paged */
    at_cudnn_tensor dout;       /* backward */
    float scale;
    bool stats;           /* forward: write LSE */
    bool padding;         /* per-sequence lengths */
    bool ragged;          /* packed sequences: element offsets for q k v o */
    int64_t page, len_kv; /* page > 0: paged K and V of this block size; logical length */

    bool bottom_right;
    bool has_left, has_right;
    int64_t left, right;

    bool bias, dbias;
    int64_t bias_batch, bias_heads; /* 1 or the full size */
    bool alibi;
    bool has_dropout;
    float dropout;
    bool sink, dsink;
    bool deterministic;
} at_cudnn_spec;

typedef struct at_cudnn_plan {
    char name[AT_CUDNN_NAME]; /* "eng2_k24=7": engine and knobs */
    bool built;
    char code[AT_CUDNN_CODE];
    char message[AT_CUDNN_MESSAGE]; /* why it could not be built */
    int64_t workspace;              /* bytes, -1 unless built */
    double ms;
} at_cudnn_plan;

/* `stage` is the last one that passed when `passed`, else the one that said no. */
typedef struct at_cudnn_answer {
    bool passed;
    at_cudnn_stage stage;
    char code[AT_CUDNN_CODE]; /* the frontend's error code, "EXCEPTION" for a C++ exception */
    char message[AT_CUDNN_MESSAGE];
    int engines; /* global engines of the operation graph, 0 before S3 */
    int plan_count, built_count;
    at_cudnn_plan plan[AT_CUDNN_PLANS_MAX]; /* distinct names, in the order of the heuristics */
} at_cudnn_answer;

/* Called before each plan of S5 is built (a log that survives a crash); may be NULL. Returning
 * false skips that plan: it stays unbuilt with code "SKIPPED". */
typedef bool (*at_cudnn_before_plan)(void *context, const char *plan);

/* The shared object's one exported symbol, `const at_cudnn_api *attest_cudnn(int abi)`: NULL when
 * it was built for another ABI. Nothing throws across it. */
typedef struct at_cudnn_api {
    const char *frontend_version; /* "1.32.0" */
    const char *header_version;   /* of cudnn.h it was compiled with: "9.19.0" */

    /* Opens libcudnn (NULL: by the loader's search) once a process. false: `message` says why. */
    bool (*open)(const char *path, char message[AT_CUDNN_MESSAGE]);
    long (*version)(void); /* cudnnGetVersion(), 91900 for 9.19.0; 0 before open */

    /* Takes the graph through the stages up to `last`. Every error is an answer; a crash of the
     * library is the caller's to contain (a child process). */
    void (*ask)(at_cudnn_answer *out, const at_cudnn_spec *spec, at_cudnn_stage last,
                at_cudnn_before_plan before, void *context);

    /* Properties of GPU `device` as JSON text (free() it), or NULL with a message: no driver. */
    char *(*device_properties)(int device, char message[AT_CUDNN_MESSAGE]);
} at_cudnn_api;

#ifdef __cplusplus
}
#endif
#endif
