"""AIM's fit without its overhead, for runs whose distances count and whose seconds do not.

AIM at epsilon 3 takes hours, nearly all of them in the mirror descent of its graphical model. `install` exchanges that
one method of dpmm for the same iterations and the same line search over plain arrays, and what it finds differs by
rounding. Three things make it faster. The measurements of one table are joined, which adds a constant to the loss.
Steps are taken in the measured tables, of which potentials are sums. Messages go once up and once down the junction
tree as quotients of sums, with one exponential for each cell. Run it to compare both on made-up measurements:

    $INID_BENCH_DPMM bench/_aim_lean.py
"""

import time

import numpy as np
from dpmm.models.base.mbi import CliqueVector, Factor, FactoredInference

OWN = FactoredInference.mirror_descent
TINY = 1e-300


class _Sums:
    """A table's sums over all but some axes, for several choices of these, by way of each other.

    Args:
        shape: The table's sizes.
        kept: The axes that are left of it.
        wanted: Which axes are to be kept of it, several times.
    """

    def __init__(self, shape, kept, wanted):
        self.shape, self.own, self.parts = shape, kept if kept in wanted else None, []
        rest = wanted - {kept}
        while rest:
            axis = max(kept, key=lambda each: (sum(each not in some for some in rest), shape[kept.index(each)]))
            mine = {some for some in rest if axis not in some}
            at = kept.index(axis)
            fewer = tuple(each for each in kept if each != axis)
            self.parts.append((at, _Sums(shape[:at] + shape[at + 1 :], fewer, mine)))
            rest -= mine

    def down(self, table, found):
        """Put the sums of a table into `found`."""
        if self.own is not None:
            found[self.own] = table
        for at, part in self.parts:
            last = at == table.ndim - 1
            part.down(table @ np.ones(table.shape[-1]) if last else table.sum(axis=at), found)

    def up(self, given, table):
        """Add to a table what is given for its sums, repeated along what they lack."""
        if self.own is not None and self.own in given:
            table += given[self.own]
        for at, part in self.parts:
            table += np.expand_dims(part.up(given, np.zeros(part.shape)), at)
        return table


class _Clique:
    """A clique of the tree, its parent, and what its parent and its children see of it."""

    def __init__(self, names, domain, base, parent):
        self.names, self.parent, self.base = names, parent, base
        self.shape = tuple(domain[name] for name in names)
        self.seen = None if parent is None else self.axes(set(parent.names))
        self.shown = None if parent is None else parent.axes(set(names))
        self.children, self.measured = [], {}

    def axes(self, names):
        return tuple(at for at, name in enumerate(self.names) if name in names)

    def measure(self, measurements):
        """Each measured table once: its weight and weighted mean, and what that leaves out of the loss."""
        joined = {}
        for _, values, noise, names in measurements:
            table = values.reshape([self.shape[self.names.index(name)] for name in names])
            order = sorted(range(len(names)), key=lambda at: self.names.index(names[at]))
            joined.setdefault(self.axes(set(names)), []).append((table.transpose(order), 1.0 / noise**2))
        for axes, own in joined.items():
            weight = sum(each for _, each in own)
            mean = sum(each * table for table, each in own) / weight
            rest = sum(0.5 * each * float(((table - mean) ** 2).sum()) for table, each in own)
            self.measured[axes] = weight, mean, rest

    def prepare(self):
        every = tuple(range(len(self.shape)))
        shown = {child.shown for child in self.children}
        self.above = None if self.seen is None else _Sums(self.shape, every, {self.seen})
        self.below = _Sums(self.shape, every, {*self.measured, *shown})


class _Fit:
    def __init__(self, engine):
        model = engine.model
        near = {}
        for i, j in model.message_order:
            near.setdefault(i, []).append(j)
        first = model.cliques[0]
        self.cliques, waiting, known = [], [(first, None)], {first}
        while waiting:
            names, parent = waiting.pop()
            clique = _Clique(names, model.domain, model.potentials[names].values, parent)
            clique.measure(engine.groups[names])
            self.cliques.append(clique)
            if parent is not None:
                parent.children.append(clique)
            for other in near.get(names, ()):
                if other not in known:
                    known.add(other)
                    waiting.append((other, clique))
        if len(self.cliques) != len(model.cliques):
            raise RuntimeError("the cliques are no tree")
        for clique in self.cliques:
            clique.prepare()
        self.total = model.total

    def zeros(self):
        return [{axes: np.zeros_like(mean) for axes, (_, mean, _) in each.measured.items()} for each in self.cliques]

    def tables(self, steps):
        """The cliques' tables and their sums, from what was added to the potentials of each measured table."""
        made, sent = {}, {}
        for clique, own in zip(self.cliques[::-1], steps[::-1], strict=True):
            given = dict(own)
            for child in clique.children:
                given[child.shown] = given.get(child.shown, 0.0) + sent[child][0]
            table = clique.below.up(given, clique.base.copy())
            most = table.max()
            table -= most
            made[clique] = np.exp(table, out=table)
            if clique.parent is not None:
                clique.above.down(table, sums := {})
                sent[clique] = np.log(np.maximum(sums[clique.seen], TINY)) + most, sums[clique.seen]
        found = {}
        for clique in self.cliques:
            table = made[clique]
            if clique.parent is None:
                table *= self.total / table.sum()
            else:
                own, parent = sent[clique][1], found[clique.parent][clique.shown]
                share = np.where(own > 0, parent / np.maximum(own, TINY), 0.0)
                lacking = [at for at in range(table.ndim) if at not in clique.seen]
                table *= np.expand_dims(share, lacking)
            clique.below.down(table, sums := {})
            found[clique] = sums
        return [made[clique] for clique in self.cliques], [found[clique] for clique in self.cliques]

    def loss(self, found):
        loss, slopes = 0.0, []
        for clique, sums in zip(self.cliques, found, strict=True):
            slopes.append({})
            for axes, (weight, mean, rest) in clique.measured.items():
                left = sums[axes] - mean
                loss += 0.5 * weight * float((left * left).sum()) + rest
                slopes[-1][axes] = weight * left
        return loss, slopes


def _moved(steps, slopes, alpha):
    return [{axes: own[axes] - alpha * down[axes] for axes in own} for own, down in zip(steps, slopes, strict=True)]


def _product(slopes, one, other):
    every = zip(slopes, one, other, strict=True)
    return sum(float((down[axes] * (a[axes] - b[axes])).sum()) for down, a, b in every for axes in down)


def lean(self, measurements, total=None, stepsize=None, callback=None):
    """`mirror_descent` with its line search, as AIM and MST call it."""
    if stepsize is not None or callback is not None or self.metric != "L2":
        return OWN(self, measurements, total, stepsize, callback)
    self._setup(measurements, total)
    fit = _Fit(self)
    steps = fit.zeros()
    tables, found = fit.tables(steps)
    loss, slopes = fit.loss(found)
    alpha = 1.0 / self.model.total**2
    for _ in range(self.iters if loss else 0):
        begun, seen, before, down = steps, found, loss, slopes
        alpha *= 2.0
        for _ in range(25):
            steps = _moved(begun, down, alpha)
            tables, found = fit.tables(steps)
            loss, slopes = fit.loss(found)
            if before - loss >= 0.5 * alpha * _product(down, seen, found):
                break
            alpha *= 0.5
    potentials, marginals = {}, {}
    for clique, own, table in zip(fit.cliques, steps, tables, strict=True):
        place = self.domain.project(clique.names)
        potentials[clique.names] = Factor(place, clique.below.up(own, clique.base.copy()))
        marginals[clique.names] = Factor(place, table)
    self.model.potentials, self.model.marginals = CliqueVector(potentials), CliqueVector(marginals)
    return loss


def install():
    FactoredInference.mirror_descent = lean


def main():
    from dpmm.models.base.matrix import Identity
    from dpmm.models.base.mbi import Domain

    random = np.random.default_rng(1)
    sizes = dict(zip("abcdefgh", (2, 3, 8, 5, 12, 4, 7, 2), strict=True))
    measured = [(*name,) for name in ("a", "b", "c", "d", "e", "f", "g", "h", "ab", "ec", "cd", "ec", "df", "bde")]
    rows = {name: random.integers(size, size=4000) for name, size in sizes.items()}
    rows["c"] = rows["e"] * 8 // 12
    facts = []
    for at, names in enumerate(measured):
        table = np.zeros([sizes[name] for name in names])
        np.add.at(table, tuple(rows[name] for name in names), 1)
        noise = 5.0 + at
        facts.append((Identity(table.size), table.ravel() + noise * random.normal(size=table.size), noise, names))
    found, seconds = {}, {}
    for name, method in (("dpmm", OWN), ("lean", lean)):
        FactoredInference.mirror_descent = method
        engine = FactoredInference(Domain.fromdict(sizes), iters=1000, warm_start=True)
        start = time.process_time()
        engine.estimate(facts[:10])
        found[name] = engine.estimate(facts)
        seconds[name] = time.process_time() - start
    for names in [*measured, ("a", "h"), ("c", "f", "b")]:
        own, other = (found[name].project(names).datavector() for name in ("dpmm", "lean"))
        print(f"{''.join(names)}: counts of {own.sum():.1f} differ by {np.abs(own - other).max():.2e} at most")
    print(f"{seconds['dpmm']:.1f} s of dpmm, {seconds['lean']:.1f} s lean")


if __name__ == "__main__":
    main()
