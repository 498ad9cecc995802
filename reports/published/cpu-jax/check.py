"""Each finding on jax.nn.dot_product_attention again without attest, the formula in NumPy's float64 beside it.

    .cache/python/bin/python reports/published/cpu-jax/check.py
"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np

R = np.random.default_rng(1)
attend = jax.nn.dot_product_attention


def tensors(*shape, kind=np.float32):
    return [jnp.asarray(R.standard_normal(shape).astype(kind)) for _ in range(3)]


def says(name, call):
    try:
        print(f"{name:58s} {call()}")
    except Exception as error:
        print(f"{name:58s} {str(error).splitlines()[0][:120]}")


def differs(got, want):
    return "differs by at most %.3g" % np.abs(np.asarray(got, np.float64) - want).max()


def f16():
    q, k, v = tensors(1, 1, 1, 8, kind=np.float16)
    says("f16, eager", lambda: differs(attend(q, k, v), np.asarray(v, np.float64)))
    says("f16, under jit", lambda: differs(jax.jit(attend)(q, k, v), np.asarray(v, np.float64)))


def subnormal():
    q, k, _ = tensors(1, 2, 1, 8)
    v = np.full((1, 2, 1, 8), 3e-39, np.float32)
    got = np.asarray(attend(q, k, jnp.asarray(v)))
    says("V = 3e-39 everywhere; the answer is 3e-39", lambda: f"max {np.abs(got).max():g}")


def dead():
    q, k, v = tensors(1, 2, 1, 8)
    mask = jnp.asarray(np.array([[[[False, False], [True, True]]]]))
    out, vjp = jax.vjp(lambda v: attend(q, k, v, mask=mask), v)
    mean = np.asarray(v, np.float64).mean(1, keepdims=True)
    says("boolean mask hides row 0: against the mean of V", lambda: differs(out[:, :1], mean))
    do = np.zeros((1, 2, 1, 8), np.float32)
    do[:, 0] = 1
    leak = np.asarray(vjp(jnp.asarray(do))[0])
    says("    gradient that row 0 alone gives to V, largest", lambda: "%.3g" % np.abs(leak).max())
    bias = jnp.asarray(np.where(np.asarray(mask), 0, -np.inf).astype(np.float32))
    says("additive -inf hides row 0", lambda: f"{np.isnan(np.asarray(attend(q, k, v, bias=bias))).sum()} of 16 are NaN")
    lengths = dict(query_seq_lengths=jnp.asarray([2], jnp.int32), key_value_seq_lengths=jnp.asarray([0], jnp.int32))
    says("no keys by lengths: against the mean of what lies beyond", lambda: differs(attend(q, k, v, **lengths), mean))


if __name__ == "__main__":
    print(f"jax {jax.__version__}, numpy {np.__version__}")
    for part in (f16, subnormal, dead):
        part()
