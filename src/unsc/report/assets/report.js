"use strict";
(() => {
  const root = document.documentElement;
  const told = document.getElementById("told");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const PALETTE = {
    light: ["#3b6fb6", "#2a9d8f", "#8a6d3b", "#7c5cbf", "#5f8f3e", "#b5608f", "#4f98c4", "#9a8b1f", "#6b7280", "#147a6b"],
    dark: ["#7fb0f0", "#5fd0c0", "#cfae74", "#b9a0f2", "#a3d07c", "#e7a1c8", "#8fd0f2", "#d9cb62", "#a8b1bf", "#55bfae"],
  };
  let chosen = "system";
  let printing = false;

  // ---- colours and numbers

  const theme = () => (printing ? "light" : chosen !== "system" ? chosen : system.matches ? "dark" : "light");
  const css = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const colour = (paint) => (typeof paint === "number" ? PALETTE[theme()][paint % 10] : css(paint));
  const hatched = (paint) => paint === "control";

  function number(value) {
    if (value === null || value === undefined || value === "") return "–";
    if (typeof value !== "number") return String(value);
    return String(Number(value.toPrecision(4)));
  }

  // ---- one chart: what Python gave, in the colours of the page

  function axis(given) {
    const line = { lineStyle: { color: css("line") } };
    const label = { color: css("soft"), fontSize: 12, ...given.axisLabel };
    if (given.type === "value" && !given.bare) label.formatter = number;
    return {
      ...given, axisLine: { show: !given.bare, ...line }, axisTick: { show: false },
      splitLine: { show: given.type === "value" && !given.bare, lineStyle: { color: css("grid") } },
      nameTextStyle: { color: css("soft"), fontSize: 12 }, axisLabel: label,
    };
  }

  function style(paint) {
    const filled = { color: colour(paint) };
    if (hatched(paint)) {
      filled.decal = { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: -Math.PI / 4, color: css("card") };
    }
    return filled;
  }

  function spread(series) {
    const ends = series.data.map((one, i) => [i, one.value, series.spread[i] || 0]);
    const renderItem = (_, api) => {
      const [from, to] = [-1, 1].map((way) => api.coord([api.value(1) + way * api.value(2), api.value(0)]));
      return { type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: css("ink"), lineWidth: 1.5 } };
    };
    return { type: "custom", data: ends, renderItem, encode: { x: 1, y: 0 }, silent: true, tooltip: { show: false }, z: 5 };
  }

  function dressed(given) {
    const { reference, paint } = given;
    const series = { ...given, color: colour(paint) };
    if (given.type === "bar") series.itemStyle = style(paint);
    if (given.type === "bar" && given.data.some((one) => one && one.paint)) {
      series.data = given.data.map((one) => ({ value: one.value, itemStyle: style(one.paint) }));
    }
    if (given.type === "line") series.lineStyle = { ...given.lineStyle, color: colour(paint) };
    if (given.type === "scatter") {
      series.itemStyle = { color: colour(paint), opacity: paint === "gone" ? 0.95 : 0.6 };
      if (paint === "gone") Object.assign(series, { symbol: "triangle", symbolSize: 9, z: 4 });
    }
    if (reference !== undefined) {
      const lineStyle = { color: css("retrained"), type: "dashed", width: 1.5 };
      series.markLine = { silent: true, symbol: "none", label: { show: false }, lineStyle, data: [{ xAxis: reference }] };
    }
    return series.spread && series.spread.some((one) => one) ? [series, spread(series)] : [series];
  }

  function hover(chart) {
    const shown = (value) => `${number(Array.isArray(value) ? value[value.length - 1] : value)}${chart.unit}`;
    const safe = (words) => echarts.format.encodeHTML(String(words));
    return (given) => {
      const drawn = (Array.isArray(given) ? given : [given]).filter((one) => one.seriesType !== "custom");
      const all = [...new Map(drawn.map((one) => [one.seriesName, one])).values()]; // a step has several values at one x
      if (!all.length) return "";
      if (chart.option.tooltip.named) return safe(all[0].seriesName);
      const first = all[0];
      const pair = Array.isArray(first.value);
      const below = chart.option.xAxis.name || "";
      const head = pair ? `${safe(below)} ${number(first.axisValue)}` : safe(first.axisValueLabel || first.name);
      return [head, ...all.map((one) => `${one.marker}${safe(one.seriesName)} <b>${shown(one.value)}</b>`)].join("<br>");
    };
  }

  function option(chart, hidden) {
    const given = chart.option;
    const kept = given.series.filter((one) => !hidden.has(one.name));
    const ink = { color: css("ink"), fontSize: 13 };
    return {
      animation: false, backgroundColor: "transparent", textStyle: { fontFamily: "system-ui, sans-serif" },
      grid: given.grid, xAxis: axis(given.xAxis), yAxis: axis(given.yAxis),
      series: kept.flatMap((one) => dressed(one)),
      tooltip: {
        ...given.tooltip, confine: true, backgroundColor: css("card"), borderColor: css("line"), textStyle: ink,
        formatter: hover(chart),
      },
    };
  }

  // ---- a figure: its view, its toggles, its numbers, and ways to keep it

  class Shown {
    constructor(figure) {
      this.figure = figure;
      this.place = document.getElementById(figure.id);
      this.title = figure.title;
      this.view = Object.values(figure.views)[0];
      this.hidden = new Set();
      this.drawn = [];
      const choice = this.place.querySelector("select");
      if (choice) choice.addEventListener("change", () => this.choose(choice.value));
      for (const button of this.place.querySelectorAll("[data-save]")) {
        button.addEventListener("click", () => this.save(button.dataset.save));
      }
      const numbers = this.place.querySelector("details.numbers");
      numbers.addEventListener("toggle", () => numbers.open && this.count());
      this.chips();
      this.lay();
    }

    choose(name) {
      this.view = this.figure.views[name];
      this.lay();
      if (this.place.querySelector("details.numbers").open) this.count();
      told.textContent = `Shows ${name}`;
    }

    chips() {
      const place = this.place.querySelector(".chips");
      const paints = new Map(this.view.charts.flatMap((chart) => chart.option.series.map((one) => [one.name, one.paint])));
      place.replaceChildren(...this.figure.toggles.map((name) => {
        const button = document.createElement("button");
        const mark = document.createElement("i");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
        mark.style.setProperty("--paint", colour(paints.get(name)));
        mark.className = hatched(paints.get(name)) ? "hatched" : "";
        mark.setAttribute("aria-hidden", "true");
        button.append(mark, name);
        button.addEventListener("click", () => {
          if (!this.hidden.delete(name)) this.hidden.add(name);
          button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
          this.draw();
        });
        return button;
      }));
    }

    lay() {
      for (const one of this.drawn) one.dispose();
      const place = this.place.querySelector(".charts");
      place.replaceChildren();
      place.dataset.charts = this.view.charts.length;
      this.drawn = this.view.charts.map((chart) => {
        const box = document.createElement("div");
        const canvas = document.createElement("div");
        if (chart.title) {
          const head = document.createElement("h4");
          head.textContent = chart.title;
          box.append(head);
        }
        canvas.style.height = `${chart.height}px`;
        canvas.className = "chart";
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", `${this.title}${chart.title ? `, ${chart.title}` : ""}. The numbers are in the table below.`);
        box.append(canvas);
        place.append(box);
        const made = echarts.init(canvas, null, { renderer: "svg" });
        new ResizeObserver(() => printing || made.isDisposed() || made.resize()).observe(canvas);
        return made;
      });
      this.draw();
    }

    draw() {
      this.drawn.forEach((one, i) => one.setOption(option(this.view.charts[i], this.hidden), { notMerge: true }));
    }

    count() {
      const table = document.createElement("table");
      const frame = document.createElement("div");
      frame.className = "scroll";
      frame.tabIndex = 0;
      frame.setAttribute("role", "region");
      frame.setAttribute("aria-label", `Numbers of ${this.title}`);
      const row = (cells, kind) => {
        const made = document.createElement("tr");
        cells.forEach((value, i) => {
          const cell = document.createElement(kind === "th" || i === 0 ? "th" : "td");
          cell.scope = kind === "th" ? "col" : i === 0 ? "row" : "";
          if (cell.tagName === "TD") cell.removeAttribute("scope");
          if (kind === "td" && typeof value === "number") cell.className = "number";
          cell.textContent = kind === "th" ? value : number(value);
          made.append(cell);
        });
        return made;
      };
      const [head, body] = [table.createTHead(), table.createTBody()];
      head.append(row(this.view.columns, "th"));
      body.append(...this.view.rows.map((cells) => row(cells, "td")));
      frame.append(table);
      const place = this.place.querySelector("details.numbers");
      place.querySelector(".scroll")?.remove();
      place.append(frame);
    }

    // One picture of all charts with title and legend, at a width of 960.
    picture() {
      const shown = this.view.charts, across = Math.min(shown.length, 2), width = 960;
      const legend = this.figure.toggles.filter((name) => !this.hidden.has(name));
      const paints = new Map(shown.flatMap((chart) => chart.option.series.map((one) => [one.name, one.paint])));
      const escape = echarts.format.encodeHTML;
      const parts = [];
      let x = 20, y = 64;
      for (const name of legend) {
        const room = 34 + 7.2 * name.length;
        if (x + room > width - 20) [x, y] = [20, y + 22];
        parts.push(`<rect x="${x}" y="${y - 10}" width="12" height="12" rx="3" fill="${colour(paints.get(name))}"/>`);
        parts.push(`<text x="${x + 18}" y="${y}" font-size="13" fill="${css("ink")}">${escape(name)}</text>`);
        x += room;
      }
      let top = legend.length ? y + 16 : 52, tallest = 0;
      shown.forEach((chart, i) => {
        if (i && i % across === 0) [top, tallest] = [top + tallest, 0];
        const size = { width: width / across - 30, height: Math.max(chart.height, 260) };
        const drawing = echarts.init(null, null, { renderer: "svg", ssr: true, ...size });
        drawing.setOption(option(chart, this.hidden));
        const left = 20 + (i % across) * (width / across - 10);
        const head = shown.length > 1 ? 22 : 0;
        if (head) parts.push(`<text x="${left}" y="${top + 14}" font-size="13" fill="${css("soft")}">${escape(chart.title)}</text>`);
        parts.push(drawing.renderToSVGString().replace("<svg ", `<svg x="${left}" y="${top + head}" `));
        drawing.dispose();
        tallest = Math.max(tallest, size.height + head + 14);
      });
      const height = top + tallest + 6;
      return { width, height, text: `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif"><rect width="100%" height="100%" fill="${css("card")}"/><text x="20" y="36" font-size="19" font-weight="600" fill="${css("ink")}">${escape(this.title)}</text>${parts.join("")}</svg>` };
    }

    async save(kind) {
      if (kind === "csv") keep(this.csv(), "text/csv", this.file("csv"));
      else if (kind === "svg") keep(this.picture().text, "image/svg+xml", this.file("svg"));
      else {
        const { width, height, text } = this.picture();
        const image = new Image();
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
        await image.decode();
        const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
        canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
        keep(await new Promise((done) => canvas.toBlob(done, "image/png")), "image/png", this.file("png"));
      }
    }

    csv() {
      const cell = (value) => {
        const words = value === null || value === undefined ? "" : String(value);
        return /[",\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
      };
      return [this.view.columns, ...this.view.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
    }

    file(ending) {
      return `${this.title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.${ending}`;
    }
  }

  function keep(content, type, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    told.textContent = `Saved ${name}`;
  }

  // ---- tables that sort

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.key;
        const rows = [...table.tBodies[0].rows];
        const numeric = rows.every((row) => key(row) === "" || Number.isFinite(Number(key(row))));
        rows.sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === "" || y === "") return (x === "") - (y === ""); // what is not known comes last
          return (up ? 1 : -1) * (numeric ? Number(x) - Number(y) : x.localeCompare(y));
        });
        table.tBodies[0].append(...rows);
        told.textContent = `Sorted by ${head.textContent}, ${up ? "ascending" : "descending"}`;
      });
    });
  }

  // ---- theme and print

  let shown = [];
  function paint() {
    root.dataset.theme = theme();
    for (const one of shown) {
      one.chips();
      one.draw();
    }
  }
  const button = document.getElementById("theme");
  button.addEventListener("click", () => {
    const order = ["system", "light", "dark"];
    chosen = order[(order.indexOf(chosen) + 1) % 3];
    button.textContent = `Theme: ${chosen}`;
    paint();
  });
  system.addEventListener("change", paint);
  // On paper a drawing is as wide as its place, whatever it was on the screen.
  const scaled = (change) => shown.flatMap((one) => one.drawn).forEach((chart) => {
    chart.getZr().flush();
    change(chart.getDom().querySelector("svg"), `0 0 ${chart.getWidth()} ${chart.getHeight()}`);
  });
  addEventListener("beforeprint", () => {
    printing = true;
    paint();
    scaled((drawing, box) => drawing.setAttribute("viewBox", box));
  });
  addEventListener("afterprint", () => {
    printing = false;
    paint();
    scaled((drawing) => drawing.removeAttribute("viewBox"));
  });

  root.dataset.theme = theme();
  document.querySelectorAll("table.sorts").forEach(sortable);
  shown = JSON.parse(document.getElementById("figures").textContent).map((figure) => new Shown(figure));
})();
