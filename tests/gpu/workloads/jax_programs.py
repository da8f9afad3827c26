# SPDX-License-Identifier: Apache-2.0
"""JAX and what is built on it: jax_programs.py NAME."""
import sys

import jax
import jax.numpy as jnp


def basics():
    """jit, grad, vmap, scan, linear algebra and FFT."""
    key = jax.random.key(0)
    x = jax.random.normal(key, (256, 256))
    print(jax.devices()[0].platform, f"{float(jnp.tanh(x @ x).sum()):.6g}")
    print(f"{float(jax.grad(lambda a: jnp.sum(a ** 3))(2.0)):.6g}")
    print(jax.vmap(lambda r: r.argmax())(x)[:10].tolist())
    last, sums = jax.lax.scan(lambda c, r: (c + r.sum(), c), 0.0, x)
    print(f"{float(last):.6g} {float(sums[100]):.6g}")
    spd = x @ x.T + 256 * jnp.eye(256)
    print(f"{float(jnp.linalg.slogdet(spd)[1]):.6g} "
          f"{float(jnp.linalg.eigh(spd)[0][-1]):.6g} "
          f"{float(jnp.abs(jnp.fft.rfft(x)).sum()):.6g}")
    print(jnp.sort(x.ravel())[:5].tolist())
    print(jax.random.permutation(key, 20).tolist())


def convolution():
    """Convolutions both ways, in two precisions."""
    x = jax.random.normal(jax.random.key(1), (4, 32, 32, 8))
    w = jax.random.normal(jax.random.key(2), (3, 3, 8, 16))

    def loss(w, x):
        y = jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (y.astype(jnp.float32) ** 2).mean()

    for kind in (jnp.float32, jnp.bfloat16):
        value, slope = jax.jit(jax.value_and_grad(loss))(w.astype(kind),
                                                         x.astype(kind))
        print(kind.__name__, f"{float(value):.4g}",
              f"{float(jnp.linalg.norm(slope.astype(jnp.float32))):.4g}")


def flax_train():
    """flax and optax: a small image classifier, ten steps."""
    import flax.linen as nn
    import optax

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(len(x), -1))

    x = jax.random.normal(jax.random.key(0), (32, 16, 16, 1))
    t = jnp.arange(32) % 10
    params = Net().init(jax.random.key(1), x)
    rule = optax.adamw(1e-2)
    state = rule.init(params)

    @jax.jit
    def step(params, state):
        def loss(p):
            return optax.softmax_cross_entropy_with_integer_labels(
                Net().apply(p, x), t).mean()
        value, slope = jax.value_and_grad(loss)(params)
        change, state = rule.update(slope, state, params)
        return optax.apply_updates(params, change), state, value

    for i in range(10):
        params, state, value = step(params, state)
        print(i, f"{float(value):.3f}")


def differential_equation():
    """diffrax and equinox: a neural differential equation and its gradient."""
    import diffrax
    import equinox as eqx
    net = eqx.nn.MLP(2, 2, 16, 2, key=jax.random.key(0))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(net, y):
        s = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, _: net(y)), diffrax.Tsit5(), 0, 1,
            0.1, y, saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 5)))
        return (s.ys ** 2).sum()

    value, slope = loss(net, jnp.array([1.0, -0.5]))
    print(f"{float(value):.5g}",
          f"{float(jnp.linalg.norm(slope.layers[0].weight)):.4g}")


def chain():
    """numpyro: a short Hamiltonian chain on a linear model."""
    import numpyro
    import numpyro.distributions as dist
    x = jnp.linspace(-1, 1, 50)
    y = 2 * x + 0.3 + 0.1 * jax.random.normal(jax.random.key(4), (50,))

    def model():
        a = numpyro.sample("a", dist.Normal(0, 5))
        b = numpyro.sample("b", dist.Normal(0, 5))
        numpyro.sample("y", dist.Normal(a * x + b, 0.1), obs=y)

    run = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=60,
                             num_samples=60, progress_bar=False)
    run.run(jax.random.key(0))
    print({k: f"{float(v.mean()):.1f}" for k, v in
           sorted(run.get_samples().items())})


def pallas():
    """The kernels that JAX itself ships, written in Pallas through Triton."""
    from jax.experimental.pallas.ops.gpu import attention, rms_norm, softmax
    q = jax.random.normal(jax.random.key(0), (1, 128, 2, 64), jnp.float16)
    y = attention.mha(q, q, q, None, causal=True)
    want = attention.mha_reference(q, q, q, None, causal=True)
    print("attention", y.shape, bool(jnp.allclose(y, want, atol=2e-2)))
    x = jax.random.normal(jax.random.key(1), (16, 512))
    print("softmax", bool(jnp.allclose(softmax.softmax(x),
                                       jax.nn.softmax(x), atol=1e-5)))
    y = rms_norm.rms_norm(x.reshape(2, 8, 512), jnp.ones(512), jnp.zeros(512))
    print("rms_norm", f"{float(y.sum()):.4g}")


globals()[sys.argv[1]]()
