"""Short training of a small transformer, equal bit by bit on equal GPUs. Python 3.8.

Every `same_every` steps all ranks compute one same batch, else each its own. Before the all-reduce the
weights, the loss and the gradients of the same batch are checksummed: with equal weights, equal GPUs have
equal gradients.

Gradients are rounded to whole numbers whose sum is exact in every order of addition (`Training.grid`). So the
sum of the same batch is known, and all weights have the same bits on every node with any of NCCL's
algorithms: ring and tree add in other orders, and NVLS need not repeat itself (NVIDIA/nccl issues 855 and
1497).

Only operations without atomic additions are used: rows are chosen by products, not by index.
"""

from __future__ import annotations

import hashlib
import math
import time
from typing import Any

from healthcheck.burnin.onnode.allreduce import grouped, part
from healthcheck.burnin.onnode.gemm import as_text, checksum
from healthcheck.burnin.onnode.times import Durations

WINDOWS = 12        # parts of the steps, each with checksums
COLUMNS = 4096      # columns of the flat buffers as a matrix, for checksums
MOST_GRADIENT = 1 / 16       # limit of a gradient's elements
EXACT_BITS = 24     # whole numbers up to 2^24 are exact in fp32
# Adam; its rate falls with the root of the width
ADAM_RATE, KEPT, KEPT_SQUARE, LEAST_ROOT = 0.03, 0.9, 0.99, 1e-6
TRAINED_IN = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16"}
NO_NUMBER = "a loss or gradients that are no numbers"
DUTIES = 8          # steps of a ramp


def train(rank: Any, device: Any) -> None:
    """Runs the training; leaves figures and checksums with the rank."""
    training = Training(rank, device)
    keys = grouped(rank, device)
    rank.at("warm")
    for step in range(rank.params["steps"]):
        training.step(step)
    rank.figures.update(training.figures())
    rank.after_report = lambda: part(keys, rank.world)


class Transformer:
    """A decoder whose parameters are views of one flat buffer, and their gradients of another."""

    def __init__(self, device: Any, params: dict[str, Any]) -> None:
        torch = self.torch = device.torch
        self.vocab, self.heads, self.width = params["vocab"], params["heads"], params["width"]
        self.length, self.precision = params["length"], getattr(torch, TRAINED_IN[params["precision"]])
        width = self.width
        layer = [(width,), (width, 3 * width), (width, width), (width,), (width, 4 * width),
                 (4 * width, width)]
        shapes = [(self.vocab, width), (self.length, width), *(layer * params["layers"]), (width,),
                  (width, self.vocab)]
        count = -(-sum(math.prod(shape) for shape in shapes) // COLUMNS) * COLUMNS
        self.weights, self.grads = (torch.zeros(count, device=device.at) for _ in range(2))
        maker = torch.Generator().manual_seed(int(params["seed"]))
        self.parameters, at = [], 0
        for shape in shapes:
            end = at + math.prod(shape)
            view = self.weights[at:end].view(shape)
            # Whole numbers times a power of two are equal on every CPU.
            view.copy_(torch.ones(shape) if len(shape) == 1
                       else torch.randint(-1024, 1025, shape,
                                          generator=maker).float() * 2.0 ** -(10 + width.bit_length() // 2))
            view.requires_grad_()
            view.grad = self.grads[at:end].view(shape)
            self.parameters.append(view)
            at = end
        self.tokens = torch.arange(self.vocab, device=device.at)
        self.hidden = torch.ones((self.length, self.length), dtype=torch.bool, device=device.at).triu(1)

    def loss(self, batch: Any) -> Any:
        """The mean loss of each token's successor; `batch` is sequences x (length + 1)."""
        torch = self.torch
        found = iter(self.parameters)
        given, wanted = ((part.unsqueeze(-1) == self.tokens).float()
                         for part in (batch[:, :-1], batch[:, 1:]))
        x = self.product(given, next(found)) + next(found)
        for _ in range((len(self.parameters) - 4) // 6):
            x = x + self.attention(self.normed(x, next(found)), next(found), next(found))
            inner = self.product(self.normed(x, next(found)), next(found))
            x = x + self.product(torch.nn.functional.gelu(inner), next(found))
        logits = self.product(self.normed(x, next(found)), next(found))
        return -(torch.log_softmax(logits, -1) * wanted).sum() / batch[:, 1:].numel()

    def attention(self, x: Any, into: Any, out: Any) -> Any:
        """Each token with those before it."""
        sequences, heads = len(x), self.heads
        parts = self.product(x, into).view(sequences, self.length, 3, heads, self.width // heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = self.product(query, key.transpose(-1, -2)) / math.sqrt(self.width // heads)
        shares = self.torch.softmax(scores.masked_fill(self.hidden, float("-inf")), -1)
        mixed = self.product(shares, value).transpose(1, 2)
        return self.product(mixed.reshape(sequences, self.length, self.width), out)

    def normed(self, x: Any, gain: Any) -> Any:
        """Of mean 0 and variance 1, times the gain."""
        return self.torch.nn.functional.layer_norm(x, (self.width,)) * gain

    def product(self, left: Any, right: Any) -> Any:
        """A matrix product in the chosen precision, as fp32."""
        return self.torch.matmul(left.to(self.precision), right.to(self.precision)).float()


class Training:
    """The steps of one rank, and their times."""

    def __init__(self, rank: Any, device: Any) -> None:
        import torch.distributed
        params = rank.params
        torch = self.torch = device.torch
        possible(params)
        # As use_deterministic_algorithms(True), which in PyTorch 2.13 imports its compiler, for seconds.
        torch.set_deterministic_debug_mode("error")
        if hasattr(torch.utils, "deterministic"):       # of PyTorch 2.2 and newer
            torch.utils.deterministic.fill_uninitialized_memory = False
        if device.cuda:
            torch.backends.cuda.matmul.allow_tf32 = params["precision"] == "tf32"
        self.rank, self.device, self.params, self.steps = rank, device, params, params["steps"]
        self.model = Transformer(device, params)
        self.weights, self.grads = self.model.weights, self.model.grads
        self.mean, self.square = (torch.zeros_like(self.weights) for _ in range(2))
        # Large, but the sum over all ranks is still a whole number that fp32 holds.
        self.grid = 2.0 ** (EXACT_BITS - (rank.world - 1).bit_length()) / MOST_GRADIENT
        self.rate = ADAM_RATE / math.sqrt(params["width"])
        self.same = self.batch(params["seed"])
        self.ends = sorted({-(-self.steps * (part + 1) // WINDOWS) for part in range(WINDOWS)})
        self.computes, self.collectives, self.whole = Durations(), Durations(), Durations()
        self.losses: list[float] = []
        self.check_s = self.step_s = 0.0
        self.began = 0.0
        self.begin()

    def begin(self) -> None:
        """Starts a new part of the steps."""
        self.digests = {"weights": hashlib.sha256(), "grads": hashlib.sha256()}
        self.wrong_sums = 0

    def batch(self, seed: int) -> Any:
        """Sequences in which each token is one or two more than the one before it."""
        maker = self.torch.Generator().manual_seed(seed)
        params = self.params
        first = self.torch.randint(0, params["vocab"], (params["batch"], 1), generator=maker)
        more = self.torch.randint(1, 3, (params["batch"], params["length"]), generator=maker)
        return (self.torch.cat((first, more), 1).cumsum(1) % params["vocab"]).to(self.device.at)

    def step(self, step: int) -> None:
        """Runs one step and records its times and checksums."""
        clock, rank, grads = time.perf_counter, self.rank, self.grads
        rank.at("compute", step)
        first = clock()
        if step == 0:
            self.began = first
        pause = self.pause(step)
        same = step % self.params["same_every"] == 0
        # Seeds of their own; the first is that of the same batch.
        batch = self.same if same else self.batch(self.params["seed"] + 1 + step * rank.world + rank.number)
        grads.zero_()
        loss = self.model.loss(batch)
        loss.backward()
        self.device.wait()
        second = clock()
        value = float(loss)
        if same:
            self.losses.append(value)
            self.see("weights", self.weights)
            self.see("grads", grads, value.hex())
        # One pass: if any element is no number, so are both.
        if not all(map(math.isfinite, (value, *map(float, grads.aminmax())))):
            rank.found_wrong(step, 1, [rank.number], False, NO_NUMBER)
            grads.zero_()       # the others must not get it
        third = clock()
        grads.clamp_(-MOST_GRADIENT, MOST_GRADIENT).mul_(self.grid).round_()
        wanted = grads * rank.world if same else grads
        self.device.wait()
        rank.at("send")
        fourth = clock()
        self.torch.distributed.all_reduce(grads)
        self.device.wait()
        fifth = clock()
        rank.at("verify")
        if same:
            self.wrong_sums += int(self.torch.count_nonzero(grads != wanted))
        sixth = clock()
        self.update()
        self.device.wait()
        seventh = clock()
        if step + 1 in self.ends:
            self.end(step + 1)
        own, check = ((second - first) + (fourth - third) + (seventh - sixth),
                      (third - second) + (sixth - fifth) + clock() - seventh)
        if step >= min(self.params["warmup"], self.steps - 1) and not pause:
            self.computes.add(own)
            self.collectives.add(fifth - fourth)
            self.whole.add(own + fifth - fourth)
            self.check_s += check
            self.step_s += own + fifth - fourth + check
        if pause:
            rank.pause(min(pause * (own + fifth - fourth + check), self.params["ramp_s"] / DUTIES))

    def pause(self, step: int) -> float:
        """The pause after a step, as a multiple of its time, so that load changes in steps; else 0."""
        ramp, left = self.params["ramp_s"], self.steps - step
        passed = time.perf_counter() - self.began
        if not ramp or min(step, left) * 4 > self.steps:
            return 0.0
        share = min(passed, left * passed / max(1, step)) / ramp
        return max(0.0, DUTIES / (1 + int(share * DUTIES)) - 1)

    def see(self, name: str, buffer: Any, more: str = "") -> None:
        """Adds a buffer's bits to what is reported of this part."""
        sums = checksum(self.torch, buffer.view(-1, COLUMNS))
        self.digests[name].update((as_text(sums) + more).encode())

    def update(self) -> None:
        """Adam, of the mean of all ranks' gradients."""
        self.grads.mul_(1 / (self.grid * self.rank.world))
        with self.torch.no_grad():
            self.mean.mul_(KEPT).add_(self.grads, alpha=1 - KEPT)
            self.square.mul_(KEPT_SQUARE).addcmul_(self.grads, self.grads, value=1 - KEPT_SQUARE)
            self.weights.addcdiv_(self.mean, self.square.sqrt().add_(LEAST_ROOT), value=-self.rate)

    def end(self, steps: int) -> None:
        """Reports a part that ends after so many steps."""
        self.see("weights", self.weights)
        for name, digest in self.digests.items():
            self.rank.checksums["train_%s_%d" % (name, steps)] = digest.hexdigest()[:32]
        self.rank.checksums["train_sum_%d" % steps] = str(self.wrong_sums)
        self.begin()

    def figures(self) -> dict[str, float]:
        """What is reported."""
        found = {"verified": float(len(self.losses)), "iterations": float(self.computes.count),
                 "size_bytes": 4.0 * self.grads.numel()}
        if all(map(math.isfinite, self.losses)):
            found.update({"train_loss_first": self.losses[0], "train_loss": self.losses[-1]})
        if self.computes.count:
            own, sums, whole = self.computes, self.collectives, self.whole
            found.update({
                "train_steps_s": 1 / max(1e-9, own.at(0.5)), "compute_p50": own.at(0.5),
                "compute_p10": own.at(0.1),
                "seconds_p50": sums.at(0.5), "seconds_p99": sums.at(0.99), "seconds_max": sums.longest,
                "step_p50": whole.at(0.5), "step_p99": whole.at(0.99), "step_max": whole.longest,
                "step_often": whole.often(),
                "check_share": self.check_s / max(1e-9, self.step_s)})
        return found


def possible(params: dict[str, Any]) -> None:
    """Raises ValueError for what no training can be made of."""
    least = [name for name in ("steps", "same_every", "layers", "width", "heads", "length", "batch", "vocab")
             if params[name] < 1]
    if least:
        raise ValueError("%s of train is 0, expected at least 1" % least[0])
    if params["width"] % params["heads"]:
        raise ValueError("width of train is %d, expected a multiple of its %d "
                         "heads" % (params["width"], params["heads"]))
    if params["precision"] not in TRAINED_IN:
        raise ValueError("precision %s, expected one of "
                         "%s" % (ascii(params["precision"]), ", ".join(TRAINED_IN)))
