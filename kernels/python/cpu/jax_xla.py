"""jax.nn.dot_product_attention, implementation "xla", on the CPU; forward and the gradients of jax.vjp."""
import functools, os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

from problem import limit, need

PACKAGE = "jax"
SAYS = {"bias": ("none", "rel.11", "rel.1h", "rel.b1", "rel.bh"), "layout": ("bshd",)}


def words(case):
    """Keyword arguments that say the case's mask; Unsupported where there are none."""
    limit(case, **SAYS)
    need(case["dqk"] == case["dv"], "dv", "dv: value has the shape of key")
    need(case["bias"] == "none" or case["amask"][:3] not in ("add", "min"), "bias",
         "bias and an additive mask: there is one bias")
    sq, skv, left, right = case["sq"], case["skv"], case["wl"], case["wr"]
    given = {"is_causal": case["mask"] == "causal", "implementation": "xla"}
    if case.has_diagonal:
        need(not list(case.extents())[2].any(), "align", f"align={case['align']}: the diagonal starts top left")
    if case["mask"] == "causal" and left >= 0:
        given["local_window_size"] = (left, 0)
    elif case["mask"] == "band" and case.has_diagonal:
        given["local_window_size"] = tuple(sq + skv if side < 0 else side for side in (left, right))
    if case["scale"] != "auto":
        given["scale"] = float(case["scale"])
    return given


def arrays(problem):
    """q k v [b s h d], and by name what comes beside them."""
    case, mask = problem.case, problem.mask()
    beside = {}
    if case["amask"].startswith("bool"):
        beside["mask"] = jnp.asarray(problem.tensor("amask").astype(bool))
    elif mask is not None:
        beside["bias"] = jnp.asarray(mask)
    if case["bias"] != "none":
        beside["bias"] = jnp.asarray(problem.tensor("bias"))
    if case.has_lengths:
        beside["query_seq_lengths"] = jnp.asarray(problem.len_q.astype(np.int32))
        beside["key_value_seq_lengths"] = jnp.asarray(problem.len_kv.astype(np.int32))
    return [jnp.asarray(problem.rows(name)) for name in "qkv"], beside


def said(problem):
    return tuple(sorted(words(problem.case).items()))


@functools.lru_cache(maxsize=512)
def compiled(engine, what, keywords):
    """One function for all cases that say the same, so that equal shapes are compiled once."""
    call = functools.partial(jax.nn.dot_product_attention, **dict(keywords))

    def output(q, k, v, beside):
        return call(q, k, v, **beside)

    def residual(q, k, v, beside):
        return call(q, k, v, return_residual=True, **beside)

    def gradients(q, k, v, bias, beside, do):
        return jax.vjp(lambda q, k, v, bias: call(q, k, v, bias, **beside), q, k, v, bias)[1](do)

    function = {"output": output, "residual": residual, "gradients": gradients}[what]
    return jax.jit(function) if engine == "jit" else function


class Attention:
    name, version, doc = "jax.xla", jax.__version__, "jax.nn.dot_product_attention, XLA on the CPU"
    promises, packages = ("backward",), {"jax": jax.__version__, "jaxlib": jaxlib.__version__}
    numeric = {"p": "stored", "scores_stored": True, "d_from_p": True, "head_rounded": True}
    contract = {"dead_o": "mean", "dead_grads": "any"}

    def claim(self, case):
        words(case)
        need(case["grads"] in ("qkv", "qkvb"), "grads", "grads: q, k, v and the bias only")
        return ["jit", "eager"]

    def forward(self, problem, engine):
        (q, k, v), beside = arrays(problem)
        problem.rows("o")[...] = np.asarray(compiled(engine, "output", said(problem))(q, k, v, beside))

    def backward(self, problem, engine):
        (q, k, v), beside = arrays(problem)
        bias, do = beside.pop("bias", None), jnp.asarray(problem.rows("do"))
        found = compiled(engine, "gradients", said(problem))(q, k, v, bias, beside, do)
        for name, x in zip(("dq", "dk", "dv"), found):
            problem.rows(name)[...] = np.asarray(x)
        if problem.tensor("dbias") is not None:
            problem.tensor("dbias")[...] = np.asarray(found[3])


class Residual(Attention):
    """The same with its log-sum-exp, which is stored in the type of the keys: f32 only."""
    name, doc = "jax.residual", "jax.nn.dot_product_attention with return_residual, XLA on the CPU"
    promises, contract = ("stats",), {"dead_o": "mean", "dead_lse": "any"}

    def claim(self, case):
        need(case["pass"] == "stats", "pass", f"pass={case['pass']}: jax.xla serves it")
        need(case["dtype"] == "f32", "dtype", f"dtype={case['dtype']}: the residual has the type of the keys")
        words(case)
        return ["jit", "eager"]

    def forward(self, problem, engine):
        (q, k, v), beside = arrays(problem)
        o, lse = compiled(engine, "residual", said(problem))(q, k, v, beside)
        problem.rows("o")[...] = np.asarray(o)
        problem.rows("lse")[..., 0] = np.asarray(lse)


def backends():
    return [Attention(), Residual()]
