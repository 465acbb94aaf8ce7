"""The report's style sheet: system fonts, light and dark, phone and paper."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b2330; --soft: #5b6675; --line: #dfe3e8; --paper: #ffffff; --panel: #f6f7f9;
  --plan: #1f5fa8; --iid: #8a94a1; --spr: #c2762b; --good: #2c7a4b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b3; --line: #313945; --paper: #14181f;
  --panel: #1c222b; --plan: #6ea8ea; --iid: #8a94a1; --spr: #e0a060; --good: #7fc99a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 2.5rem 1.25rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .5rem; padding-bottom: .35rem; border-bottom: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0 .8rem; max-width: 44rem; }
.soft, caption, .note { color: var(--soft); }
.note { font-size: .875rem; }
.warning { border-left: 4px solid var(--spr); padding: .5rem .9rem; background: var(--panel); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; margin: 1.5rem 0 0; }
.fact { background: var(--panel); border-radius: .5rem; padding: .75rem .9rem; }
.fact b { display: block; font-size: 1.25rem; line-height: 1.25; font-weight: 600; overflow-wrap: anywhere; }
.fact span { font-size: .8125rem; color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .8125rem; vertical-align: bottom; }
th, td { padding: .28rem .75rem .28rem 0; border-bottom: 1px solid var(--line); }
tfoot td { border-bottom: 0; padding-top: .1rem; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.picture, th.picture { width: 38%; min-width: 8rem; padding-right: 0; }
td.wider { width: 60%; }
td svg { display: block; }
td.name { overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(7rem, 11rem) 1fr; gap: .3rem 1rem; margin: .75rem 0;
  font-size: .9375rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .875em; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .5rem 0; font-size: .8125rem;
  color: var(--soft); }
.legend i { display: inline-block; width: .65rem; height: .65rem; border-radius: 50%; margin-right: .4rem; }
.dot { stroke: var(--paper); stroke-width: 1.5; }
.dot.plan, .bar.plan { fill: var(--plan); } .dot.iid, .bar.iid { fill: var(--iid); }
.dot.spr, .bar.spr { fill: var(--spr); }
i.plan { background: var(--plan); } i.iid { background: var(--iid); } i.spr { background: var(--spr); }
.bar.other { fill: var(--line); } .bar.count { fill: var(--plan); opacity: .35; }
.cross th[scope=row] { vertical-align: top; color: var(--ink); font-weight: 400; font-size: .875rem; }
.range { display: block; color: var(--soft); font-size: .75rem; }
.dim, .dim td { color: var(--soft); opacity: .75; }
.heat1 { background: color-mix(in srgb, var(--plan) 6%, transparent); }
.heat2 { background: color-mix(in srgb, var(--plan) 12%, transparent); }
.heat3 { background: color-mix(in srgb, var(--plan) 18%, transparent); }
.heat4 { background: color-mix(in srgb, var(--plan) 24%, transparent); }
.heat5 { background: color-mix(in srgb, var(--plan) 30%, transparent); }
.noisy { color: var(--spr); font-size: .75rem; font-weight: 600; white-space: nowrap; }
.promise { border-left: 4px solid var(--good); padding: .5rem .9rem; background: var(--panel); }
h2.part { margin-top: 4rem; font-size: 1.3rem; }
.rest { fill: var(--line); } .spent { fill: var(--iid); } .taken { fill: var(--plan); }
.rail, .grid { stroke: var(--line); stroke-width: 1; }
.guide { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 3 2; opacity: .55; }
.whisker { stroke: var(--plan); stroke-width: 1.5; }
.ticks text { fill: var(--soft); font-size: 11px; font-family: inherit; }
footer { margin-top: 3rem; font-size: .8125rem; color: var(--soft); }
@media (max-width: 40rem) { main { padding: 1.5rem 1rem 2rem; } h1 { font-size: 1.4rem; } .spare { display: none; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } th, td { padding-right: .5rem; }
  td.picture, th.picture { min-width: 6rem; } .picture.spare { display: none; } }
@media print { :root { --ink: #000; --soft: #444; --line: #ccc; --paper: #fff; --panel: #f4f4f4; --plan: #1f5fa8;
  --iid: #777; --spr: #b5651d; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; } tr, .fact { break-inside: avoid; } * { print-color-adjust: exact; } }
"""
