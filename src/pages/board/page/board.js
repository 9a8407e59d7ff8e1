// The page of one or several runs. It asks the server's /api (docs/board.md) and draws with dygraphs; what the server says in
// HTML was escaped there, all other text goes in as text.
'use strict';

const POINTS = 1500;        // of a curve
const FEW = 12;             // points: each is a dot
const QUIET = 1000;         // milliseconds between two updates of a run, at least
const REST = 19;            // times as long as curves took to draw: that takes a twentieth of a processor at most
const POLLING = 5000;       // milliseconds, where the server sends no events
const COLORS = ['#2f81f7', '#e0812b', '#2da44e', '#d9485f', '#a371f7', '#1b9aaa', '#b8860b', '#8b949e'];
const DASHES = [null, [6, 3], [2, 2], [8, 3, 2, 3], [12, 4]];

// What is drawn together. `match` gets a figure's name and the names of the run's evaluators; `less` names figures that are drawn
// without a part of theirs, which is drawn too.
const isEvaluator = (name, evaluators) => evaluators.some((one) => name.startsWith(one + '/'));
const CHARTS = [
  {title: 'Loss', log: true, match: (n, e) => n === 'training_loss' || (isEvaluator(n, e) && n.endsWith('/loss'))},
  {title: 'Scores', match: (n, e) => isEvaluator(n, e) && !/\/(loss|count)$/.test(n)},
  {title: 'Learning rate', match: (n) => /^(lr|momentum)(\/|$)/.test(n)},
  {title: 'Norms', log: true, match: (n) => /^l2_/.test(n)},
  {title: 'Images a second', match: (n) => n === 'img/sec'},
  {title: 'Seconds of a step', stacked: true, clip: true, less: {'z/secs/step': 'z/secs/transfer'},
   match: (n) => /^z\/secs\/(input|transfer|step)$/.test(n)},
  {title: 'Seconds of evaluations and saves', match: (n) => /^z\/secs\/(eval\/|histograms|save)/.test(n)},
  {title: 'Work of the input', stacked: true, match: (n) => /^input\//.test(n)},
  {title: 'Utilisation', match: (n) => /^(mfu|goodput|input_wait|y\/hostcpu\/.*)$/.test(n)},
  {title: 'Time lost', stacked: true, match: (n) => /^badput\//.test(n)},
  {title: 'Memory of the run', unit: 'bytes', planned: true, match: (n) => n === 'y/hostmem/resident' || n.startsWith('y/devmem/')},
  {title: 'Memory of the machine', unit: 'bytes', match: (n) => /^y\/hostmem\/(total|available|used)$/.test(n)},
  {title: 'Bytes read and written', unit: 'bytes', match: (n) => /^y\/hostio\//.test(n)},
];

const element = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) out.addEventListener(name.slice(2), value);
    else if (name.startsWith('aria-')) out.setAttribute(name, String(value));
    else if (value === true) out.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) out.setAttribute(name, value);
  }
  out.append(...children.filter((one) => one !== null && one !== undefined));
  return out;
};

// ---- numbers as people read them ----
const shortNumber = (value) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return Number(value.toPrecision(3)).toExponential();
  return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(4)));
};
// No line ends between a number and its " %".
const keepPercentages = (text) => text.replace(/(\d) %/g, '$1\u00a0%');
const bytesText = (value) => {
  if (!Number.isFinite(value)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; ++unit; }
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
};
const durationText = (seconds) => {
  if (!Number.isFinite(seconds)) return '–';
  const whole = Math.max(0, Math.round(seconds)), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  const two = (n) => String(n).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
};

// What curves are drawn over: `metric` gives it for the steps of a run (none: the step itself), divided by `unit`.
const AXES = {
  step: {text: (x) => `step ${x.toLocaleString('en')}`, short: shortNumber},
  epochs: {metric: 'epoch', unit: 1, text: (x) => `epoch ${shortNumber(x)}`, short: shortNumber},
  hours: {metric: 'uptime', unit: 3600, text: (x) => durationText(3600 * x), short: (x) => `${shortNumber(x)} h`},
};

// ---- what the server knows ----
const board = {runs: [], chosen: [], data: new Map(), charts: [], filter: '', smoothing: 0, axis: 'step', answer: '', table: '',
               busy: false, drawing: 0};
const query = (values) => new URLSearchParams(values).toString();

async function ask(path, values = {}, options = {}) {
  const response = await fetch(`${path}?${query(values)}`, options);
  if (!response.ok) throw new Error((await response.text()).trim() || `${response.status}`);
  return (response.headers.get('content-type') || '').includes('json') ? response.json() : response.text();
}

function tell(problem) {
  element('trouble').hidden = !problem;
  element('trouble').textContent = problem || '';
}

const dataOf = (name) => {
  if (!board.data.has(name)) board.data.set(name, {generation: -1, metrics: {}, last: -1, version: -1, drawn: -1, log: 0});
  return board.data.get(name);
};
const runOf = (name) => board.runs.find((run) => run.name === name);
const first = () => runOf(board.chosen[0]);

async function loadMetrics(name) {
  const data = dataOf(name);
  let got = await ask('/api/metrics', {run: name, after: data.last, max: POINTS});
  if (got.generation !== data.generation) {
    if (data.last >= 0) got = await ask('/api/metrics', {run: name, max: POINTS});
    data.metrics = {};
    data.generation = got.generation;
    data.last = -1;
  }
  for (const [metric, points] of Object.entries(got.metrics)) {
    const known = data.metrics[metric] ||= {step: [], value: []};
    for (let i = 0; i < points.step.length; ++i) {
      known.step.push(points.step[i]);
      known.value.push(points.value[i]);
    }
    data.last = Math.max(data.last, points.step[points.step.length - 1]);
  }
}

// ---- curves ----
// As TensorBoard smooths: an exponential mean without the bias of its start.
function smoothed(values, weight) {
  if (!(weight > 0)) return values;
  let mean = 0, share = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + (1 - weight) * value;
    share = share * weight + (1 - weight);
    return mean / share;
  });
}

// What is left of `whole` without `part`: of where that is not known, without what it was before.
function difference(whole, part) {
  let next = 0;
  const value = whole.step.map((step, i) => {
    while (next < part.step.length && part.step[next] <= step) ++next;
    return Math.max(0, whole.value[i] - (next > 0 ? part.value[next - 1] : 0));
  });
  return {step: whole.step, value};
}

function curvesOf(chart) {
  const curves = [], several = board.chosen.length > 1;
  const figures = board.chosen.map((name) => {
    const evaluators = (runOf(name)?.scores || []).map((one) => one.evaluator);
    return Object.keys(dataOf(name).metrics).filter((metric) => chart.match(metric, evaluators)).sort();
  });
  const all = [...new Set(figures.flat())].sort();  // a figure has the same strokes in every run, whatever others a run has
  board.chosen.forEach((name, runIndex) => {
    const found = figures[runIndex];
    found.forEach((metric) => {
      const metricIndex = all.indexOf(metric), part = found.find((one) => one === chart.less?.[metric]);
      const metrics = dataOf(name).metrics, shown = part ? `${metric} without ${part.split('/').pop()}` : metric;
      curves.push({
        run: name, metric, label: several ? `${shown} · ${name}` : shown,
        color: COLORS[(several ? runIndex : metricIndex) % COLORS.length],
        dash: several ? DASHES[metricIndex % DASHES.length] : null,
        points: part ? difference(metrics[metric], metrics[part]) : metrics[metric],
      });
    });
  });
  return curves;
}

// The axis that was chosen, where each run on the page has its figure.
const has = (name, axis) => !AXES[axis].metric || (dataOf(name).metrics[AXES[axis].metric]?.step.length || 0) > 0;
const axisNow = () => (board.chosen.every((name) => has(name, board.axis)) ? board.axis : 'step');

// Where steps of a run, in ascending order, stand on an axis. Between two points of its figure, which the server may have
// thinned to other steps than those of a curve, it goes straight.
function placesOf(name, steps, axis) {
  const {metric, unit} = AXES[axis];
  if (!metric) return steps;
  const known = dataOf(name).metrics[metric], last = known.step.length - 1;
  let next = 0;
  return steps.map((step) => {
    while (next < last && known.step[next] < step) ++next;
    const at = known.step[next], value = known.value[next];
    if (next === 0 || at <= step) return value / unit;
    const before = known.step[next - 1], share = (step - before) / (at - before);
    return (known.value[next - 1] + share * (value - known.value[next - 1])) / unit;
  });
}

function tableOf(curves, axis) {
  const rows = new Map();
  curves.forEach((curve, index) => {
    const values = smoothed(curve.points.value, board.smoothing);
    placesOf(curve.run, curve.points.step, axis).forEach((x, i) => {
      if (!rows.has(x)) rows.set(x, [x, ...curves.map(() => null)]);
      rows.get(x)[index + 1] = values[i];
    });
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

// Rows without figures, so that the x axis goes from 0 to the run's last step.
function wholeAxis(table, width, axis) {
  const last = Math.max(...board.chosen.map((name) => placesOf(name, [runOf(name)?.step || 0], axis)[0]));
  const empty = (x) => [x, ...Array(width).fill(null)];
  if (table.length > 0 && table[0][0] > 0) table.unshift(empty(0));
  if (table.length > 0 && table.at(-1)[0] < last) table.push(empty(last));
  return table;
}

function plannedBytes() {
  const planned = dataOf(board.chosen[0]).facts?.planned;
  return planned ? Math.max(planned.peak || 0, (planned.arguments || 0) + (planned.temporaries || 0)) : 0;
}

// Where a few points are far above all others (a start's first step), the others get the room: the top of the axis, and the point
// that is cut off most. Null where none is.
function clippingOf(table) {
  const sums = table.map((row) => row.slice(1).reduce((sum, value) => sum + (value || 0), 0));
  const usual = [...sums].sort((a, b) => a - b)[Math.floor(0.95 * (sums.length - 1))], top = Math.max(...sums);
  if (!(usual > 0) || !(top > 4 * usual)) return null;
  return {top: 1.5 * usual, most: top, at: table[sums.indexOf(top)][0]};
}

// A dashed line across a chart, and what it stands for.
function drawLevel(canvas, area, graph, level, name) {
  const y = graph.toDomYCoord(level);
  if (!(level > 0) || !(y > area.y) || y > area.y + area.h) return;
  canvas.save();
  canvas.strokeStyle = canvas.fillStyle = getComputedStyle(document.body).getPropertyValue('--bad').trim();
  canvas.setLineDash([6, 4]);
  canvas.beginPath();
  canvas.moveTo(area.x, y);
  canvas.lineTo(area.x + area.w, y);
  canvas.stroke();
  canvas.font = '12px sans-serif';
  canvas.textAlign = 'right';
  canvas.fillText(name, area.x + area.w - 4, y - 4);
  canvas.restore();
}

// Ticks of a logarithmic axis: powers of ten where there are three in the range or more (every second, every third where there is
// no room for all), else numbers between them. Dygraphs' own are at 0.007, 0.7, 70.
const LOG_DIGITS = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];
function logTicks(low, high, pixels, option, graph) {
  const otherTicks = () => Dygraph.numericLinearTicks(low, high, pixels, option, graph);
  if (!(low > 0) || !Number.isFinite(high)) return otherTicks();  // nothing is drawn
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / Math.max(2, Math.floor(pixels / 35))));
  const labelled = (values) => values.map((v) => ({v, label: option('axisLabelFormatter').call(graph, v, 0, option, graph)}));
  for (const digits of LOG_DIGITS) {
    const values = [];
    for (let power = first; power <= last; ++power) {
      if (power % every === 0) values.push(...digits.map((digit) => Number(`${digit}e${power}`)));
    }
    const seen = values.filter((value) => value >= low && value <= high);
    if (seen.length >= 3) return labelled(seen);
  }
  return otherTicks();
}

function drawChart(chart) {
  const curves = curvesOf(chart);
  chart.box.hidden = curves.length === 0 || !(`${chart.title} ${curves.map((one) => one.metric).join(' ')}`)
    .toLowerCase().includes(board.filter);
  if (chart.box.hidden) return;
  chart.stale = Boolean(chart.graph) && !chart.seen;
  if (chart.stale) return;  // it is drawn once somebody scrolls there
  const axis = axisNow(), table = tableOf(curves, axis);
  const style = getComputedStyle(document.body);
  const format = chart.unit === 'bytes' ? bytesText : shortNumber;
  const log = chart.logOn && table.some((row) => row.slice(1).some((value) => value > 0));
  const labels = [axis, ...curves.map((one) => one.label)];
  // The plan is of a device's memory: beside that of the whole process it says nothing.
  const planned = chart.planned && curves.some((curve) => curve.metric.startsWith('y/devmem/')) ? plannedBytes() : 0;
  const clipping = chart.clip ? clippingOf(table) : null;
  const rows = wholeAxis(table, curves.length, axis);
  const series = {};
  curves.forEach((curve) => {
    const few = curve.points.step.length <= FEW;
    series[curve.label] = {color: curve.color, strokePattern: curve.dash, drawPoints: few, pointSize: few ? 2.5 : 1};
  });
  const options = {
    labels, series, logscale: log, stackedGraph: Boolean(chart.stacked) && board.chosen.length === 1,
    connectSeparatedPoints: true, xRangePad: 4, yRangePad: log ? 8 : null, strokeWidth: 1.6, labelsDiv: chart.legend, legend: 'always',
    gridLineColor: style.getPropertyValue('--line').trim(), axisLineColor: style.getPropertyValue('--soft').trim(),
    underlayCallback: planned > 0 ? (canvas, area, graph) => drawLevel(canvas, area, graph, planned, 'planned') : null,
    includeZero: planned > 0 && !log, highlightCircleSize: 3, hideOverlayOnMouseOut: false, digitsAfterDecimal: 4,
    axes: {y: {valueFormatter: format, axisLabelFormatter: format, axisLabelWidth: 62,
               valueRange: clipping ? [0, clipping.top] : null,
               ticker: log && chart.unit !== 'bytes' ? logTicks : Dygraph.numericTicks,
               labelsKMG2: chart.unit === 'bytes'},  // round numbers on the axis
           x: {valueFormatter: AXES[axis].text, axisLabelFormatter: AXES[axis].short}},
  };
  if (chart.graph && chart.labels === labels.join('\n')) {
    chart.graph.updateOptions({file: rows, ...options});
  } else {
    chart.graph?.destroy();
    chart.graph = new Dygraph(chart.plot, rows, options);
    chart.labels = labels.join('\n');
  }
  chart.note.textContent = planned > 0 ? `A step was planned to take ${bytesText(planned)} of a device's memory.` :
    clipping ? `Up to ${shortNumber(clipping.most)} at ${AXES[axis].text(clipping.at)}, cut off here.` : '';
}

// Charts that stand where they are seen.
const watcher = new IntersectionObserver((changes) => {
  for (const change of changes) {
    const chart = board.charts.find((one) => one.box === change.target);
    chart.seen = change.isIntersecting;
    if (chart.seen && chart.stale) drawChart(chart);
  }
}, {rootMargin: '300px'});

function addChart(definition, parent) {
  const chart = {...definition, logOn: Boolean(definition.log)};
  chart.plot = make('div', {class: 'plot', role: 'img', 'aria-label': `Curves: ${chart.title}`});
  chart.legend = make('div', {class: 'legend'});
  chart.note = make('p', {class: 'note soft'});
  const button = make('button', {type: 'button', 'aria-pressed': chart.logOn, onclick: () => {
    chart.logOn = !chart.logOn;
    button.setAttribute('aria-pressed', chart.logOn);
    drawChart(chart);
  }}, 'log');
  chart.box = make('article', {class: 'chart', hidden: true},
    make('header', {}, make('h3', {}, chart.title), chart.stacked ? null : button), chart.plot, chart.legend, chart.note);
  parent.append(chart.box);
  board.charts.push(chart);
  watcher.observe(chart.box);
  return chart;
}

// A chart for each figure that no other shows.
function addOtherCharts() {
  const shown = (name, evaluators) => CHARTS.some((chart) => chart.match(name, evaluators));
  const names = new Set();
  for (const run of board.chosen) {
    const evaluators = (runOf(run)?.scores || []).map((one) => one.evaluator);
    Object.keys(dataOf(run).metrics).filter((name) => !shown(name, evaluators)).forEach((name) => names.add(name));
  }
  for (const name of [...names].sort()) {
    if (board.charts.some((chart) => chart.title === name)) continue;
    addChart({title: name, other: true, match: (n) => n === name}, element('more-charts'));
  }
}

function drawCharts() {
  const start = performance.now();
  for (const option of element('axis').options) {
    option.disabled = !board.chosen.every((name) => has(name, option.value));
  }
  element('axis').value = axisNow();
  addOtherCharts();
  for (const chart of board.charts) {
    if (!chart.other || element('more').open) drawChart(chart);
  }
  board.drawing += performance.now() - start;
}

// ---- the run in words ----
const stateBadge = (run) => make('span', {class: `state ${run.state.replace(' ', '-')}`}, run.state);

function drawRuns() {
  const place = element('runs');
  if (board.runs.length < 2) return place.replaceChildren();
  const rows = board.runs.map((run) => {
    const chosen = board.chosen.includes(run.name);
    const box = make('input', {type: 'checkbox', checked: chosen, 'aria-label': `show ${run.name}`,
                               onchange: () => choose(run.name, box.checked)});
    const color = chosen ? COLORS[board.chosen.indexOf(run.name) % COLORS.length] : 'transparent';
    const key = make('span', {class: 'key'});
    key.style.background = color;
    const score = run.scores[0];
    return make('tr', {class: chosen ? 'chosen' : ''}, make('td', {}, box),
      make('th', {scope: 'row', class: 'name', onclick: () => choose(run.name, true, true)}, key, run.name),
      make('td', {}, stateBadge(run)),
      make('td', {}, shortNumber(run.step), run.total ? make('span', {class: 'wide-only'}, ` of ${shortNumber(run.total)}`) : null),
      make('td', {class: 'wide-only'}, shortNumber(run.newest.training_loss)),
      make('td', {}, score ? keepPercentages(`${score.score} ${score.text}`) : '–'),
      make('td', {class: 'wide-only'}, score ? keepPercentages(`${score.best_text} at ${shortNumber(score.best_step)}`) : '–'));
  });
  const head = ['', 'run', 'state', 'steps', 'training loss', 'score', 'best'];
  place.replaceChildren(make('div', {class: 'wide'}, make('table', {},
    make('thead', {}, make('tr', {}, ...head.map((one, i) =>
      make('th', {scope: 'col', class: i === 4 || i === 6 ? 'wide-only' : ''}, one)))),
    make('tbody', {}, ...rows))));
}

async function command(what) {
  board.busy = true;
  board.answer = what === 'profile' ? 'profiling for 10 seconds …' : '…';
  drawHead();
  try {
    const answer = await ask(`/api/${what}`, {run: board.chosen[0], ...(what === 'profile' ? {seconds: 10} : {})}, {method: 'POST'});
    const written = answer.path || answer.directory;
    board.answer = written ? `written: ${first().path}/${written}` : 'the run was told';
    if (answer.table) board.table = answer.table;
  } catch (error) {
    board.answer = error.message;
  }
  board.busy = false;
  drawHead();
}

// `code` between backquotes, as messages write it.
const withCode = (text) => text.split('`').map((part, i) => (i % 2 === 1 ? make('code', {}, part) : keepPercentages(part)));

function drawButtons(run) {
  if (run.state !== 'running') return null;
  const button = (what, title, more = {}) => make('button',
    {type: 'button', disabled: board.busy, onclick: () => command(what), ...more}, title);
  return make('p', {class: 'buttons'}, button('checkpoint', 'Save a checkpoint'), button('profile', 'Profile 10 s'),
    button('stop', 'Stop', {class: 'danger', onclick: () => {
      if (confirm(`Stop ${run.name} after this step? It is saved, and the same command continues it.`)) command('stop');
    }}), make('span', {class: 'soft', role: 'status'}, board.answer));
}

function drawHead() {
  const run = first();
  if (board.runs.length === 0 || !run) return element('head').replaceChildren(make('h1', {}, 'No runs yet'));
  document.title = `${run.progress ? Math.floor(100 * run.progress) + ' % ' : ''}${run.name} – Tessera`;
  const numbers = [['step', `${shortNumber(run.step)}${run.total ? ` of ${shortNumber(run.total)}` : ''}`],
                   ['left', run.seconds_left === null ? null : durationText(run.seconds_left)],
                   ['took', run.newest.uptime ? durationText(run.newest.uptime) : null],
                   ['epoch', run.newest.epoch ? shortNumber(run.newest.epoch) : null],
                   ['training loss', run.newest.training_loss === undefined ? null : shortNumber(run.newest.training_loss)],
                   ['images/s', run.newest['img/sec'] ? shortNumber(run.newest['img/sec']) : null],
                   ...run.scores.map((one) => [`${one.evaluator} ${one.score}`,
                     `${one.text}${one.best_text !== one.text ? ` (best ${one.best_text} at ${shortNumber(one.best_step)})` : ''}`])];
  const remarks = (dataOf(run.name).remarks || [])
    // Its files alone don't tell that it goes on; what can't be read now stands in `problems`.
    .filter((one) => (one.topic !== 'ended' || run.state !== 'running') && one.topic !== 'unread')
    .map((one) => make('li', {class: one.trouble ? 'trouble' : ''}, ...withCode(`${one.text}${one.advice ? ` ${one.advice}` : ''}`)));
  const buttons = drawButtons(run);
  const problems = run.problems.map((one) => make('p', {class: 'trouble'}, one));
  element('head').replaceChildren(
    make('div', {class: 'titles'}, make('h1', {}, run.name), stateBadge(run), run.message ? make('span', {}, run.message) : null),
    ...(run.progress ? [make('progress', {max: 1, value: run.progress, 'aria-label': 'progress'})] : []),
    make('ul', {class: 'numbers'}, ...numbers.filter((one) => one[1] !== null).map(([name, value]) =>
      make('li', {}, `${name} `, make('b', {}, keepPercentages(value))))),
    ...(remarks.length > 0 ? [make('ul', {class: 'verdict'}, ...remarks)] : []), ...(buttons ? [buttons] : []),
    ...(board.table ? [make('pre', {}, board.table)] : []), ...problems);
}

function drawCheckpoints(list) {
  if (!list || list.length === 0) return element('checkpoints').replaceChildren();
  element('checkpoints').replaceChildren(make('h2', {}, 'Checkpoints'), make('div', {class: 'wide'}, make('table', {class: 'facts'},
    make('thead', {}, make('tr', {}, ...['step', 'size', 'where'].map((one) => make('th', {scope: 'col'}, one)))),
    make('tbody', {}, ...list.map((one) => make('tr', {}, make('th', {scope: 'row'}, shortNumber(one.step)),
      make('td', {}, bytesText(one.bytes)), make('td', {}, make('code', {}, one.path))))))));
}

// Times of the log are UTC; people read their own.
const clockText = (text) => {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toLocaleString();
};

function drawCompilations(list) {
  if (!list || list.length === 0) return element('compilations').replaceChildren();
  element('compilations').replaceChildren(make('h2', {}, 'Compiled programs'), make('div', {class: 'wide'}, make('table', {class: 'facts'},
    make('thead', {}, make('tr', {}, ...['program', 'took', 'why', 'when'].map((one) => make('th', {scope: 'col'}, one)))),
    make('tbody', {}, ...list.map((one) => make('tr', {}, make('th', {scope: 'row'}, make('code', {}, one.program)),
      make('td', {}, one.took), make('td', {}, one.cause), make('td', {}, clockText(one.at))))))));
}

// ---- the processes of a run ----
const shareText = (share) => (Number.isFinite(share) ? `${Math.round(100 * share)} %` : '–');
const secondsText = (seconds) => (Number.isFinite(seconds) ? `${shortNumber(seconds)} s` : '–');
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
const HOST_COLUMNS = [
  ['host', (one) => one.host], ['step', (one) => shortNumber(one.step)], ['waits for input', (one) => shareText(one.input_wait)],
  ['waits for other processes', (one) => shareText(one.peer_wait)],
  ['step without it', (one) => secondsText(one.step_seconds)],
  ['processors', (one) => `${shareText(one.cpu_used)} (${shareText(one.cpu_process)} its own)`],
  ['memory of the machine', (one) => `${bytesText(one.memory_used)} of ${bytesText(one.memory_total)}`],
  ['resident', (one) => bytesText(one.resident)],
  ['first device', (one) => `${bytesText(one.device_in_use)} (most ${bytesText(one.device_peak)})`],
  ['reads, writes a second', (one) => `${bytesText(one.read)}, ${bytesText(one.written)}`],
  ['last heard of', (one) => `${Math.round(one.age)} s ago`],
];
// A number that is null is not known, as one that is missing.
const withoutNulls = (one) => Object.fromEntries(Object.entries(one).map(([name, value]) => [name, value === null ? undefined : value]));

function drawHosts(hosts) {
  const place = element('hosts'), processes = hosts.processes.map(withoutNulls), slowest = hosts.slowest;
  if (processes.length < 2) return place.replaceChildren();
  const open = place.querySelector('details')?.open;
  const silent = (one) => hosts.silent.some((text) => text.startsWith(`process ${one.process} `));
  const cells = processes.map((one) => {
    const holdsUp = slowest?.holds_up && slowest.process === one.process;
    const cell = make('li', {class: `${holdsUp ? 'slowest' : ''} ${silent(one) ? 'silent' : ''}`,
                             title: HOST_COLUMNS.map(([name, text]) => `${name}: ${text(one)}`).join('\n')},
      make('b', {}, String(one.process)), shareText(one.input_wait));
    cell.style.setProperty('--wait', one.input_wait || 0);
    return cell;
  });
  const lines = hosts.silent.map((text) => make('p', {class: 'trouble'}, sentence(text)));
  if (slowest?.holds_up) lines.unshift(make('p', {class: 'trouble'}, sentence(`${slowest.text}, and wait for it`)));
  else if (slowest) lines.unshift(make('p', {class: 'soft'}, `No process holds the others up: ${slowest.text}.`));
  lines.unshift(...hosts.hanging.map((text) => make('p', {class: 'trouble'}, sentence(text))));
  const known = (name) => processes.some((one) => Number.isFinite(one[name]));
  if (known('input_wait') && !known('peer_wait')) {
    lines.push(make('p', {class: 'soft'}, 'Which one computes slowly cannot be told: the sums over them are inside the plugin.'));
  }
  const table = make('details', {}, make('summary', {}, 'All processes'), make('div', {class: 'wide'}, make('table', {class: 'facts'},
    make('thead', {}, make('tr', {}, ...['process', ...HOST_COLUMNS.map(([name]) => name)].map((one) => make('th', {scope: 'col'}, one)))),
    make('tbody', {}, ...processes.map((one) => make('tr', {}, make('th', {scope: 'row'}, String(one.process)),
      ...HOST_COLUMNS.map(([, text]) => make('td', {}, text(one)))))))));
  table.open = Boolean(open);
  place.replaceChildren(make('h2', {}, 'Processes'), make('p', {class: 'soft'}, 'How much of the time each waits for its input.'),
    make('ul', {class: 'strip'}, ...cells), ...lines, table);
}

let later = 0;
async function loadDetails(run) {
  const data = dataOf(run.name);
  if (data.version === run.version) return;
  data.version = run.version;
  const details = await ask('/api/run', {run: run.name});
  // The server makes this rarely: what it says may be from before the news.
  data.version = details.version;
  clearTimeout(later);
  if (data.version < run.version) later = setTimeout(update, POLLING);
  if (data.drawn === details.version) return;
  data.drawn = details.version;
  data.remarks = details.remarks;
  data.facts = details.facts;
  drawCheckpoints(details.checkpoints);
  drawCompilations(details.compilations);
  drawHead();
  drawCharts();  // what was planned
  // Images come once more after the first step, which leaves the file of the first batch.
  const begun = run.step > 0, images = element('images').childElementCount === 0 || data.begun !== begun;
  data.begun = begun;
  const parts = ['evaluations', 'facts', ...(images ? ['images'] : [])];
  for (const part of parts) {
    const open = [...element(part).querySelectorAll('details')].map((one) => one.open);
    element(part).innerHTML = await ask('/api/part', {run: run.name, part});
    element(part).querySelectorAll('details').forEach((one, i) => { one.open = Boolean(open[i]); });
  }
}

async function loadLog(run) {
  const data = dataOf(run.name), place = element('log');
  const got = await ask('/api/log', {run: run.name, after: data.log});
  if (got.next < data.log) place.textContent = '';
  data.log = got.next;
  if (got.lines.length === 0) return;
  const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
  place.append(got.lines.join('\n') + '\n');
  if (atEnd) place.scrollTop = place.scrollHeight;
}

async function loadDifferences() {
  const place = element('differences');
  if (board.chosen.length < 2) return place.replaceChildren();
  place.innerHTML = await ask('/api/part', {run: board.chosen.join('\n'), part: 'differences'});
}

// ---- keeping up ----
function choose(name, on, alone = false) {
  board.chosen = alone ? [name] : board.chosen.filter((one) => one !== name).concat(on ? [name] : []);
  if (board.chosen.length === 0) board.chosen = [name];
  for (const part of ['hosts', 'evaluations', 'images', 'facts', 'checkpoints', 'compilations']) element(part).replaceChildren();
  board.answer = board.table = '';
  element('log').textContent = '';
  for (const data of board.data.values()) { data.version = data.drawn = -1; data.log = 0; }
  drawRuns();
  loadDifferences().catch((error) => tell(error.message));
  hurry = true;  // who asks for something does not wait
  endRest();
  update();
}

let updating = null, again = false, hurry = false, endRest = () => {};
async function update() {
  if (updating || document.hidden) { again = true; return updating; }
  board.drawing = 0;
  hurry = false;
  updating = (async () => {
    try {
      const known = await ask('/api/runs');
      board.runs = known.runs;
      board.chosen = board.chosen.filter(runOf);
      if (board.chosen.length === 0 && board.runs.length > 0) {
        board.chosen = [(board.runs.find((run) => run.state === 'running') || board.runs[0]).name];
      }
      await Promise.all(board.chosen.map(loadMetrics));
      drawRuns();
      drawHead();
      drawCharts();
      if (first()) {
        await loadLog(first());
        const run = first(), hosts = await ask('/api/hosts', {run: run.name});
        if (first() === run) drawHosts(hosts);
        await loadDetails(first());
      }
      tell(known.problems.join('\n'));
    } catch (error) {
      tell(`The server does not answer any more (${error.message}). This is the last that it said.`);
    }
    document.body.dataset.ready = 'yes';
  })();
  await updating;
  if (!hurry) await new Promise((done) => { endRest = done; setTimeout(done, Math.max(QUIET, REST * board.drawing)); });
  updating = null;
  if (again) { again = false; update(); }
}

// While the page is seen: a browser has six connections to a server, for all its tabs, and one in the background needs none.
let events = null, polling = null;
function listen() {
  events?.close();
  events = null;
  if (document.hidden) return;
  const source = new EventSource('/api/events');
  events = source;
  source.addEventListener('change', update);
  source.onopen = () => { clearInterval(polling); polling = null; update(); };
  source.onerror = () => {
    polling ||= setInterval(update, POLLING);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (events === source) listen(); }, 30000);
  };
}

document.addEventListener('visibilitychange', () => { if (!document.hidden && again && !updating) { again = false; update(); } });
element('smoothing').addEventListener('input', (event) => {
  board.smoothing = Number(event.target.value);
  element('smoothing-value').textContent = event.target.value;
  drawCharts();
});
element('axis').addEventListener('change', (event) => {
  board.axis = event.target.value;
  drawCharts();
});
element('filter').addEventListener('input', (event) => {
  board.filter = event.target.value.trim().toLowerCase();
  drawCharts();
});
element('controls').addEventListener('submit', (event) => event.preventDefault());
element('more').addEventListener('toggle', drawCharts);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
for (const definition of CHARTS) addChart(definition, element('charts'));
update();
if (location.hash !== '#still') {  // for pictures of the page
  listen();
  document.addEventListener('visibilitychange', listen);
}
