// SPDX-License-Identifier: Apache-2.0
// cli/parts/page/report.js: draws the data of a report.
//
// data: {title, facts: [[name, text]], tiles: [{label, value, note}], tables: [table], charts: [chart],
//        runs: [{name, charts: [chart]}], left_out}; several runs are shown one at a time. left_out: what their pictures do not show.
// table, chart: of charts.js; a chart of kind heat has layers: [{name, columns: [[number]]}] and y.step instead of series.
// Every text becomes text: nothing of the data is read as HTML.
"use strict";
(() => {
  const {drawn, make, colour, number, short, title_of, table_of, details_of, is_empty, keys_of, draw_chart, choice_of} = charts;
  const data = JSON.parse(document.getElementById("data").textContent);

  const mixed = (cold, hot, share) => {
    const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
    return `rgb(${[0, 1, 2].map((i) => Math.round(part(cold, i) + share * (part(hot, i) - part(cold, i)))).join(",")})`;
  };

  // Cells of pages by time. `state.layer` is the one that is shown.
  function draw_heat(chart, picture, live) {
    const state = {layer: chart.layers[0]};
    const columns = chart.x.values.length, rows = chart.layers[0].columns[0].length;
    const canvas = make("canvas", {role: "img", tabindex: "0", "aria-label": `${chart.title}: ${rows} ranges of ${chart.y.label} by ${columns} spans of ${chart.x.label}s; the table sums each range`});
    const tip = make("div", {class: "tip", hidden: ""});
    picture.append(canvas, tip);
    const box = {left: 64, bottom: 40, top: 6, right: 8};
    const size = () => ({width: picture.clientWidth, height: picture.clientHeight});
    const first_of = (column) => column === 0 ? 1 : chart.x.values[column - 1] + 1;
    const most_of = (layer) => layer.columns.reduce((most, c) => c.reduce((a, b) => Math.max(a, b), most), 0);
    const say = (column, row) => `${chart.x.label}s ${number(first_of(column))} to ${number(chart.x.values[column])}, ${chart.y.label}s ${number(row * chart.y.step)} to ${number((row + 1) * chart.y.step - 1)}: ${number(state.layer.columns[column][row])} ${state.layer.name}`;

    function draw(marked) {
      const {width, height} = size(), scale = window.devicePixelRatio || 1;
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      const cell = {w: (width - box.left - box.right) / columns, h: (height - box.top - box.bottom) / rows};
      const cold = colour("cold"), hot = colour("hot"), most = most_of(state.layer);
      for (let column = 0; column < columns; ++column) {
        for (let row = 0; row < rows; ++row) {
          const share = most ? Math.sqrt(state.layer.columns[column][row] / most) : 0;
          pen.fillStyle = mixed(cold, hot, share);
          pen.fillRect(box.left + column * cell.w, box.top + row * cell.h, cell.w + 0.5, cell.h + 0.5);
        }
      }
      pen.fillStyle = colour("quiet");
      pen.font = "12px " + getComputedStyle(document.body).fontFamily;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      const each_row = Math.max(1, Math.ceil(rows / 6));
      for (let row = 0; row < rows; row += each_row) pen.fillText(short(row * chart.y.step), box.left - 6, box.top + (row + 0.5) * cell.h);
      pen.textBaseline = "top";
      pen.textAlign = "left";
      const below = height - box.bottom + 6;
      pen.fillText(short(first_of(0)), box.left, below);
      pen.textAlign = "right";
      pen.fillText(short(chart.x.values[columns - 1]), width - box.right, below);
      pen.textAlign = "center";
      pen.fillText(title_of(chart.x), box.left + (width - box.left - box.right) / 2, below + 14);
      pen.save();
      pen.translate(10, box.top + (height - box.top - box.bottom) / 2);
      pen.rotate(-Math.PI / 2);
      pen.textBaseline = "middle";
      pen.fillText(title_of(chart.y), 0, 0);
      pen.restore();
      if (!marked) return;
      pen.strokeStyle = colour("tone-1");
      pen.lineWidth = 2;
      pen.strokeRect(box.left + marked.column * cell.w, box.top + marked.row * cell.h, cell.w, cell.h);
    }

    function show(column, row) {
      tip.hidden = column < 0;
      draw(column < 0 ? undefined : {column, row});
      if (column < 0) return "";
      const {width, height} = size();
      tip.textContent = say(column, row);
      tip.style.whiteSpace = width < 520 ? "normal" : "nowrap";
      const x = box.left + (column + 0.5) / columns * (width - box.left - box.right);
      tip.style.left = Math.max(0, Math.min(x + 10, width - tip.offsetWidth)) + "px";
      tip.style.top = Math.min(box.top + (row + 1) / rows * (height - box.top - box.bottom) + 8, height - tip.offsetHeight) + "px";
      return tip.textContent;
    }

    canvas.addEventListener("mousemove", (event) => {
      const {width, height} = size();
      const column = Math.floor((event.offsetX - box.left) / (width - box.left - box.right) * columns);
      const row = Math.floor((event.offsetY - box.top) / (height - box.top - box.bottom) * rows);
      const inside = column >= 0 && column < columns && row >= 0 && row < rows;
      show(inside ? column : -1, row);
    });
    canvas.addEventListener("mouseleave", () => show(-1, 0));
    const at = {column: 0, row: 0};
    canvas.addEventListener("keydown", (event) => {
      const [dx, dy] = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]}[event.key] || [];
      if (dx === undefined) return;
      event.preventDefault();
      at.column = Math.min(Math.max(at.column + dx, 0), columns - 1);
      at.row = Math.min(Math.max(at.row + dy, 0), rows - 1);
      live.textContent = show(at.column, at.row);
    });
    canvas.addEventListener("blur", () => show(-1, 0));
    const watch = new ResizeObserver(() => draw());
    watch.observe(picture);
    drawn.push(draw);

    const choice = choice_of("Shown", chart.id, chart.layers.map((layer) => layer.name), (i) => { state.layer = chart.layers[i]; draw(); });
    const scale = make("div", {class: "scale"}, "0", make("i"), make("span", {}, "most"));
    picture.after(choice, scale);
    draw();
    return () => watch.disconnect();
  }

  function heat_rows(chart) {
    const sums = chart.layers[0].columns[0].map((_, row) => [
      `${number(row * chart.y.step)}–${number((row + 1) * chart.y.step - 1)}`,
      ...chart.layers.map((layer) => layer.columns.reduce((sum, column) => sum + column[row], 0))]);
    return [[chart.y.label, ...chart.layers.map((layer) => layer.name)], sums];
  }

  // Adds the figure to `grid`; the result takes what it holds away.
  function add_figure(chart, grid) {
    const caption = make("figcaption", {}, make("h3", {}, chart.title), ...(chart.note ? [make("p", {}, chart.note)] : []));
    const picture = make("div", {class: "picture"});
    const live = make("p", {class: "unseen", "aria-live": "polite"});
    const figure = make("figure", {class: chart.kind === "heat" ? "wide" : chart.wide || "", id: "figure-" + chart.id}, caption, picture, live);
    grid.append(figure);
    if (is_empty(chart)) {
      picture.append(make("p", {class: "empty"}, "nothing to show: none in this replay"));
      return () => {};
    }
    const rows = () => chart.kind === "heat" ? heat_rows(chart)
      : [[title_of(chart.x), ...chart.series.map((s) => s.name + (chart.y.unit ? ", " + chart.y.unit : ""))],
         chart.x.values.map((x, i) => [x, ...chart.series.map((s) => s.values[i] ?? null)])];
    const drop = chart.kind === "heat" ? draw_heat(chart, picture, live) : draw_chart(chart, picture, live).drop;
    figure.append(details_of(chart, rows));
    return drop;
  }

  function add_runs(runs, report) {
    report.append(make("h2", {}, runs.length > 1 ? "Each policy" : "The replay"));
    const grid = make("div", {class: "charts"});
    const own = drawn.length;
    let drops = [];
    const show = (i) => {
      drops.forEach((drop) => drop());
      drawn.length = own;
      grid.replaceChildren();
      drops = runs[i].charts.map((chart) => add_figure(chart, grid));
    };
    if (runs.length > 1) report.append(choice_of("Policy", "run", runs.map((run) => run.name), show));
    report.append(grid, ...(data.left_out ? [make("p", {class: "lead left-out"}, data.left_out)] : []));
    show(0);
  }

  function build() {
    const report = document.getElementById("report");
    for (const tile of data.tiles || []) {
      document.getElementById("tiles").append(make("div", {}, make("dt", {}, tile.label),
        make("dd", {class: "value"}, tile.value), make("dd", {class: "note"}, tile.note)));
    }
    for (const [name, text] of data.facts || []) document.getElementById("facts").append(make("dt", {}, name), make("dd", {}, text));
    if (data.tables || data.charts) report.append(make("h2", {}, data.heading || "Comparison"));
    if (data.lead) report.append(make("p", {class: "lead"}, data.lead));
    for (const table of data.tables || []) {
      report.append(make("section", {class: "table-card"}, table_of(table.title, table.columns, table.rows), ...(table.note ? [make("p", {}, table.note)] : [])));
    }
    if (data.charts) {
      const grid = make("div", {class: data.charts.length < 3 ? "charts few" : "charts"});
      report.append(grid);
      data.charts.forEach((chart) => add_figure(chart, grid));
    }
    if (data.runs) add_runs(data.runs, report);
    charts.finish();
  }

  build();
})();
