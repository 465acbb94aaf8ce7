"""Views of two private tables and a public one, made at random: of safe steps, and of an unsafe one among them.

A step takes a relation with the columns pid, x, g and gives another; `UNSAFE` has those after which a row depends on
more than one person, `UNSAFE_ROWS` those after which a row counts twice.
"""

import ibis

__all__ = ["CODES", "PEOPLE", "UNSAFE", "UNSAFE_ROWS", "VISITS", "made_view"]

PEOPLE = [(1, 1.0, 1), (2, 2.0, 2), (3, 7.0, 1), (4, None, 3), (None, 5.0, 2), (-2, 4.0, None)]
VISITS = [(1, 3.0, 1), (1, 4.0, 2), (2, 5.0, 2), (5, 6.0, 1), (3, -1.0, 3), (3, None, 2)]
CODES = [(1, 10.0), (2, 20.0), (4, 30.0)]


def people(world):
    return world["people"].select("pid", "x", "g")


def visits(world):
    v = world["visits"]
    return v.select(pid=v.patient, x=v.b, g=v.code)


def private(world, rng):
    return people(world) if rng.random() < 0.5 else visits(world)


def kept(joined, rng):
    """The columns pid, x and g of a join, of which the other side's are called x2."""
    x = joined.x + joined.x2 if rng.random() < 0.5 else ibis.coalesce(joined.x2, joined.x)
    return joined.select("pid", x=x, g=joined.g)


def other(world, rng):
    o = private(world, rng)
    o = o.filter(o.x > rng.integers(-2, 5)) if rng.random() < 0.4 else o
    return o.select(pid2=o.pid, x2=o.x, g2=o.g).view()


def codes(world):
    return world["codes"].select(g2="g", x2="w").view()


def filtered(t, world, rng):
    conditions = [t.x > int(rng.integers(0, 6)), t.g.isin([1, 2]), t.x.isnull() | (t.g == 1), ~(t.x.between(1, 3))]
    return t.filter(conditions[rng.integers(len(conditions))])


def computed(t, world, rng):
    values = [
        t.x * 2 + 1,
        t.x.abs(),
        t.x.clip(0, 4),
        ibis.ifelse(t.g == 1, t.x, -t.x),
        t.x / (t.x.abs() + 1),
        t.x.abs().sqrt(),
    ]
    values += [t.g.cast("float64") * t.x, ibis.greatest(t.x, 2.0), t.x.nullif(4.0), t.x.floor().cast("float64")]
    return t.mutate(x=values[rng.integers(len(values))])


def tidied(t, world, rng):
    return [t.drop_null("x"), t.fill_null({"x": 0.5}), t.order_by("x"), t.mutate(z=t.x).drop("z")][rng.integers(4)]


def joined_people(t, world, rng):
    o = other(world, rng)
    on = [t.pid == o.pid2] + ([o.x2 > t.x] if rng.random() < 0.3 else [])
    how = ["inner", "left", "semi", "anti"][rng.integers(4)]
    made = t.join(o, on, how=how)
    return made if how in ("semi", "anti") else kept(made, rng)


def joined_codes(t, world, rng):
    c = codes(world)
    on = [t.g == c.g2] if rng.random() < 0.6 else [t.g <= c.g2, t.x < c.x2]
    how = ["inner", "left", "semi", "anti"][rng.integers(4)]
    made = t.join(c, on, how=how)
    return made if how in ("semi", "anti") else kept(made, rng)


def joined_key(t, world, rng):
    """With rows as the unit: by a key that is unique."""
    c = codes(world)
    return kept(t.join(c, [t.g == c.g2], how=["inner", "left"][rng.integers(2)]), rng)


def kept_by_codes(t, world, rng):
    c = codes(world)
    return t.join(c, [t.g <= c.g2], how=["semi", "anti"][rng.integers(2)])


def added(t, world, rng):
    return t.union(private(world, rng), distinct=False)


UNSAFE = {
    "joined by group": lambda t, w, r: _by(t, other(w, r), r, lambda t, o: [t.g == o.g2]),
    "joined by computed people": lambda t, w, r: _by(t, other(w, r), r, lambda t, o: [t.pid == o.pid2.abs()]),
    "joined by order": lambda t, w, r: _by(t, other(w, r), r, lambda t, o: [t.pid <= o.pid2]),
    "joined by either": lambda t, w, r: _by(t, other(w, r), r, lambda t, o: [(t.pid == o.pid2) | (t.g == o.g2)]),
    "people without their sign": lambda t, w, r: t.mutate(pid=t.pid.abs()),
    "people in two": lambda t, w, r: t.mutate(pid=t.pid % 2),
    "nobody is somebody": lambda t, w, r: t.fill_null({"pid": 2}),
    "some are others": lambda t, w, r: t.mutate(pid=ibis.ifelse(t.pid == 3, 2, t.pid)),
    "distinct": lambda t, w, r: t.select("pid", "x", "g").distinct(),
    "limited": lambda t, w, r: t.order_by("x", "pid").limit(3),
    "grouped": lambda t, w, r: t.group_by("g").agg(pid=t.pid.min(), x=t.x.sum()).select("pid", "x", "g"),
    "ranked": lambda t, w, r: t.mutate(x=ibis.row_number().over(order_by=[t.x, t.pid]).cast("float64")),
    "among": lambda t, w, r: t.filter(t.g.isin(other(w, r).g2)),
    "public kept": lambda t, w, r: _public_first(t, w, "left"),
    "public tested": lambda t, w, r: _public_tested(t, w),
    "outer": lambda t, w, r: kept(t.outer_join(o := other(w, r), t.pid == o.pid2), r),
    "distinct union": lambda t, w, r: t.select("pid", "x", "g").union(private(w, r), distinct=True),
}
UNSAFE_ROWS = {
    "twice": lambda t, w, r: t.union(t, distinct=False),
    "joined with people": lambda t, w, r: _by(t, other(w, r), r, lambda t, o: [t.pid == o.pid2]),
    "kept by people": lambda t, w, r: t.semi_join(o := other(w, r), t.pid == o.pid2),
    "joined by order": lambda t, w, r: _by(t, codes(w), r, lambda t, c: [t.g <= c.g2]),
    "distinct": UNSAFE["distinct"],
    "grouped": UNSAFE["grouped"],
    "joined by doubles": lambda t, w, r: _by(t, codes(w), r, lambda t, c: [t.x == c.g2]),
}


def _by(t, o, rng, on):
    return kept(t.join(o, on(t, o), how=["inner", "left"][rng.integers(2)]), rng)


def _public_first(t, world, how):
    c = codes(world)
    made = c.join(t, c.g2 == t.g, how=how)
    return made.select("pid", x=made.x2, g=made.g2)


def _public_tested(t, world):
    c = codes(world)
    made = c.anti_join(t, c.g2 == t.g)
    return made.select(pid=made.g2, x=made.x2, g=made.g2)


def made_view(world, rng, *, unsafe=None, rows=False):
    """A view of some steps; with the unsafe one of a name somewhere among them."""
    steps = [filtered, computed, tidied, joined_codes, joined_people, added]
    if rows:
        steps = [filtered, computed, tidied, joined_key, kept_by_codes]
    chosen = [steps[rng.integers(len(steps))] for _ in range(rng.integers(1, 5))]
    if unsafe is not None:
        chosen.insert(int(rng.integers(len(chosen) + 1)), (UNSAFE_ROWS if rows else UNSAFE)[unsafe])
    t = private(world, rng)
    for step in chosen:
        t = step(t, world, rng).view()  # else Ibis makes one chain of joins of several, and takes columns for others
    return t.select("pid", "x", "g")
