#pragma once

namespace tessera::report {

// Of every page. Colours of text and ground follow the reader's system; those of curves suit both.
inline constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --ground: #ffffff; --panel: #f6f8fa; --line: #d1d9e0;
  --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --ground: #0d1117; --panel: #161b22; --line: #3d444d; --bad: #ff8a80; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: .5rem 0 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; overflow-wrap: anywhere; }
p, li { max-width: 75ch; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.verdict { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem .75rem 2rem;
  margin: 1rem 0; }
.verdict li { margin: .25rem 0; }
.trouble { color: var(--bad); font-weight: 600; }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: .5rem; }
figure { margin: 0; }
.curve svg { display: block; width: 100%; height: auto; }
.curve text { fill: var(--soft); }
.wide { overflow-x: auto; max-width: 100%; }
.tables { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line); font-weight: 400;
  vertical-align: top; }
thead th { color: var(--soft); }
thead th:first-child, .facts thead th, .pairs thead th:nth-child(2) { text-align: left; }
table:not(.facts) td { white-space: nowrap; }
tbody th { text-align: left; overflow-wrap: break-word; max-width: min(28rem, 55vw); }
.facts th code { overflow-wrap: break-word; }
.matrix th, .matrix td { padding: .15rem .4rem; border: 1px solid var(--line); text-align: center; min-width: 2.2rem; }
.matrix .name { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden;
  overflow-wrap: anywhere; width: max-content; max-width: 6rem; margin: 0 auto; }
.facts td { text-align: left; overflow-wrap: anywhere; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(116px, 1fr)); gap: .75rem; padding: 0;
  list-style: none; }
.pictures img { display: block; width: 112px; height: 112px; object-fit: contain; background: var(--panel); }
.pictures img.small { image-rendering: pixelated; }
.pictures figcaption { font-size: .78rem; line-height: 1.3; overflow-wrap: anywhere; }
.sheet { display: block; width: min(100%, 480px); height: auto; }
.sheet.small { image-rendering: pixelated; }
.none { width: 112px; height: 112px; background: var(--panel); border: 1px dashed var(--line); font-size: .7rem;
  padding: .3rem; overflow: hidden; color: var(--soft); }
.bar { display: flex; height: 1.4rem; border-radius: 4px; overflow: hidden; margin: .5rem 0; max-width: 60rem; }
.bar span { display: block; min-width: 1px; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; overflow-x: auto;
  font-size: .85rem; }
code { overflow-wrap: anywhere; }
)css";

}  // namespace tessera::report
