"use strict";
(() => {
  // Foreign text reaches the page by textContent and setAttribute alone, never as markup.
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodes = data.nodes;
  const STATES = ["unhealthy", "unknown", "degraded", "never-seen", "healthy"];
  const OWNERS = ["operator", "network", "vendor", "datacentre", "user", "none"];
  const WORDS = { operator: "operators", network: "network team", vendor: "vendor", datacentre: "data centre", user: "job's user",
    none: "no one" };
  const NAMED = 400;      // up to so many nodes, each cell has its name
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const key in attributes || {}) {
      if (key === "class") made.className = attributes[key];
      else if (key.startsWith("on")) made.addEventListener(key.slice(2), attributes[key]);
      else if (attributes[key] !== undefined) made.setAttribute(key, attributes[key]);
    }
    made.append(...children.filter((each) => each !== "" && each !== undefined && each !== null));
    return made;
  }
  function svg(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text) made.append(svgTitle(text));
    return made;
  }
  function svgTitle(text) {
    const title = document.createElementNS(SVG, "title");
    title.textContent = text;
    return title;
  }
  const bdi = (text) => el("bdi", null, text);
  const count = (n) => n.toLocaleString("en");
  const nodesOf = (n) => `${count(n)} node${n === 1 ? "" : "s"}`;
  const ownerOf = (node) => node.owner || "none";
  // Beside whose turn it is on the node itself, the owners of its incidents.
  const ownersOf = (node) => [ownerOf(node), ...(node.also || [])];
  const now = () => Math.max(Date.now() / 1000, data.made);
  const utc = (at) => new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  function brief(at) {
    if (!at) return "never";
    const s = Math.max(0, now() - at);
    return s < 60 ? "<1m" : s < 3600 ? `${Math.floor(s / 60)}m` : s < 172800 ? `${Math.floor(s / 3600)}h` : `${Math.floor(s / 86400)}d`;
  }
  function ago(at) {
    const s = Math.max(0, now() - at);
    if (s < 60) return "less than a minute ago";
    const [n, unit] = s < 3600 ? [s / 60, "minute"] : s < 172800 ? [s / 3600, "hour"] : [s / 86400, "day"];
    return `${Math.floor(n)} ${unit}${Math.floor(n) === 1 ? "" : "s"} ago`;
  }
  // A cell is called by its node and its age, and described by its title.
  const stateOf = (node) => node.state.replace("-", " ") + (node.stale ? ", old" : "");
  function shape(node) {
    return el("span", { class: `shape s-${node.state}`, "aria-hidden": "true" }, node.owner ? node.owner[0].toUpperCase() : "");
  }

  // ---- commands can be copied
  function copies(where) {
    for (const box of where.querySelectorAll(".cmd:not(.has)")) {
      const text = box.firstElementChild.textContent;
      box.classList.add("has");
      const button = el("button", { type: "button", class: "copy", "aria-label": `Copy: ${text}`, onclick: () => copy(text, button) }, "copy");
      box.append(button);
    }
  }
  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = el("textarea", { class: "off", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = done ? "copied" : "failed";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }
  // As a shell takes it.
  const word = (text) => /^[\w.@%+=:,/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
  const command = (text) => el("span", { class: "cmd" }, el("code", null, text));

  // ---- a job of N nodes
  function fits() {
    const need = Number($("need").value), out = $("fits");
    out.replaceChildren();
    if (!Number.isInteger(need) || need < 1) return;
    for (const sku of document.querySelectorAll(".sku")) {
      const ready = Number(sku.dataset.ready);
      out.append(el("div", null, el("span", { class: ready >= need ? "yes" : "no" }, ready >= need ? "Yes" : "No"),
        ` on ${sku.dataset.sku}: ${count(ready)} ready` + (ready >= need ? "" : `, ${count(need - ready)} short`)));
    }
  }

  // ---- what is chosen, which the address keeps: #node=gpu001&q=ecc&owner=vendor
  const chosen = { q: "", state: new Set(), owner: new Set(), group: "", as: "grid", node: "" };
  function fromAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    const several = (key, known) => new Set((given.get(key) || "").split(",").filter((each) => known.includes(each)));
    chosen.q = given.get("q") || "";
    chosen.state = several("state", STATES);
    chosen.owner = several("owner", OWNERS);
    chosen.group = ["rack", "leaf", "sku", "owner", "state"].includes(given.get("group")) ? given.get("group") : usual();
    chosen.as = given.get("as") === "table" ? "table" : "grid";
    chosen.node = given.get("node") || "";
  }
  function address(over) {
    const made = new URLSearchParams();
    const held = { ...chosen, ...over };
    if (held.node) made.set("node", held.node);
    if (held.q) made.set("q", held.q);
    if (held.state.size) made.set("state", [...held.state].join(","));
    if (held.owner.size) made.set("owner", [...held.owner].join(","));
    if (held.group !== usual()) made.set("group", held.group);
    if (held.as !== "grid") made.set("as", held.as);
    return "#" + made;
  }
  const keep = () => history.replaceState(null, "", address());
  const usual = () => nodes.some((node) => node.rack) ? "rack" : nodes.some((node) => node.leaf) ? "leaf" : "sku";

  // ---- filters
  function hay(node) {
    if (node.hay === undefined) {
      const said = (node.findings || []).map(([at]) => Object.values(data.findings[at]).join(" "));
      node.hay = [node.node, node.sku, node.rack, node.leaf, node.state, node.lifecycle, node.owner, node.turn, node.why, node.fault,
        node.gate_why, ...said].join(" ").toLowerCase();
    }
    return node.hay;
  }
  function matches(node, but) {
    return (but === "state" || !chosen.state.size || chosen.state.has(node.state))
      && (but === "owner" || !chosen.owner.size || ownersOf(node).some((owner) => chosen.owner.has(owner)))
      && chosen.q.toLowerCase().split(/\s+/).every((word) => hayHas(node, word));
  }
  const hayHas = (node, word) => !word || hay(node).includes(word);
  function chips(box, kind, known, of, picture) {
    box.replaceChildren(box.firstElementChild);
    for (const value of known) {
      const number = nodes.filter((node) => of(node).includes(value) && matches(node, kind)).length;
      if (!number && !chosen[kind].has(value)) continue;
      box.append(el("button", { type: "button", class: "chip", "data-value": value, "aria-pressed": String(chosen[kind].has(value)), onclick: () => {
        if (!chosen[kind].delete(value)) chosen[kind].add(value);
        draw();
        box.querySelector(`[data-value="${value}"]`)?.focus();
      } }, picture(value), kind === "owner" ? WORDS[value] : value.replace("-", " "), el("span", { class: "dim" }, count(number))));
    }
  }
  const swatch = (owner) => owner === "none" ? "" : el("span", { class: `own o-${owner}`, "aria-hidden": "true" }, owner[0].toUpperCase());

  // ---- the fleet
  let cells = [];
  function label(node) {
    return `${node.node}: ${stateOf(node)}, ` + (node.seen ? `data ${ago(node.seen)}` : "no data")
      + (node.owner ? `, next: ${WORDS[node.owner]}` : "") + (node.lifecycle ? `, ${node.lifecycle}` : "");
  }
  function cell(node, named) {
    const made = el("button", { type: "button", tabindex: "-1", title: label(node),
      class: `cell o-${ownerOf(node)}${node.stale ? " stale" : ""}${node.lifecycle ? " outside" : ""}` },
      shape(node), el("span", { class: named ? "name" : "off" }, node.node), " ", el("span", { class: "age" }, brief(node.seen)));
    made.node = node;
    return made;
  }
  function groups(found) {
    const held = new Map();
    const key = { rack: (n) => n.rack, leaf: (n) => n.leaf, sku: (n) => n.sku, owner: (n) => WORDS[ownerOf(n)], state: (n) => n.state }[chosen.group];
    for (const node of found) {
      const name = key(node) || `no ${chosen.group}`;
      if (!held.has(name)) held.set(name, []);
      held.get(name).push(node);
    }
    return [...held].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  }
  function grid(found) {
    const named = found.length <= NAMED;
    const made = document.createDocumentFragment();
    for (const [name, held] of groups(found)) {
      const open = held.filter((node) => node.owner).length;
      const box = el("div", { class: "cells" }, ...held.map((node) => cell(node, named)));
      made.append(el("section", { class: `rack${named ? " named" : ""}`, "aria-label": `${chosen.group} ${name}` },
        el("h3", null, bdi(name), el("span", { class: "dim" }, open ? `${count(open)} of ${count(held.length)} need action` : nodesOf(held.length))), box));
    }
    return made;
  }
  function table(found) {
    const head = ["Node", "State", "Age", "Whose turn", "What", "Next command", "Gate", "SKU, rack, leaf"];
    const body = el("tbody");
    for (const node of found) {
      body.append(el("tr", { class: node.stale ? "stale" : "" },
        el("th", { scope: "row" }, el("button", { type: "button", class: "link", onclick: () => open(node.node, true) }, node.node)),
        el("td", null, stateOf(node) + (node.lifecycle ? `, ${node.lifecycle}` : "")), el("td", { class: "age" }, brief(node.seen)),
        el("td", null, node.owner ? WORDS[node.owner] : ""), el("td", null, bdi(node.turn || "")), el("td", null, el("code", null, node.next)),
        el("td", null, node.gate), el("td", null, bdi([node.sku, node.rack, node.leaf].filter(Boolean).join(", ")))));
    }
    return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Nodes as a table" }, el("table", null,
      el("thead", null, el("tr", null, ...head.map((text) => el("th", { scope: "col" }, text)))), body));
  }
  function draw() {
    const found = nodes.filter((node) => matches(node));
    chips($("states"), "state", STATES, (node) => [node.state],
      (value) => el("span", { class: `shape s-${value}`, "aria-hidden": "true" }));
    chips($("owners"), "owner", OWNERS, ownersOf, swatch);
    $("view").classList.toggle("dense", chosen.as === "grid" && found.length > NAMED);
    $("view").replaceChildren(chosen.as === "table" ? table(found) : grid(found));
    cells = [...$("view").querySelectorAll(".cell")];
    settle($("view").querySelectorAll(".dense .rack"));
    const first = cells.find((each) => each.node.node === chosen.node) || cells[0];
    if (first) first.tabIndex = 0;
    const open = found.filter((node) => node.owner).length;
    $("shown").textContent = (found.length === nodes.length ? `All ${nodesOf(nodes.length)}` : `${count(found.length)} of ${nodesOf(nodes.length)}`)
      + `; someone has to act on ${count(open)}.`;
    $("clear").hidden = !chosen.q && !chosen.state.size && !chosen.owner.size;
    mark();
    keep();
  }
  function settle(racks) {
    // Thousands of cells are laid out where they are seen first, and the others when there is time.
    let at = 0;
    const more = () => {
      for (const end = at + 24; at < Math.min(end, racks.length); at += 1) racks[at].classList.add("laid");
      if (at < racks.length && racks[0].isConnected) later(more);
    };
    if (racks.length) later(more);
  }
  const later = (what) => window.requestIdleCallback ? requestIdleCallback(what, { timeout: 2000 }) : setTimeout(what, 200);
  function mark() {
    for (const each of cells) {
      if (each.node.node === chosen.node) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
  }
  function walk(event) {
    const at = cells.indexOf(document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    let to = at;
    if (event.key === "ArrowRight") to = at + 1;
    else if (event.key === "ArrowLeft") to = at - 1;
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = cells.length - 1;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") to = beyond(at, event.key === "ArrowDown");
    else return;
    event.preventDefault();
    if (to < 0 || to >= cells.length) return;
    cells[at].tabIndex = -1;
    cells[to].tabIndex = 0;
    cells[to].focus();
  }
  function beyond(at, down) {
    // The nearest cell of the next row, wherever the racks have put it.
    const here = cells[at].getBoundingClientRect(), middle = here.left + here.width / 2;
    let best = -1, row = null, near = Infinity;
    for (let to = 0; to < cells.length; to += 1) {
      const box = cells[to].getBoundingClientRect();
      const away = down ? box.top - here.bottom : here.top - box.bottom;
      if (away < -1) continue;
      const side = Math.abs(box.left + box.width / 2 - middle);
      if (row === null || away < row - 4 || (away < row + 4 && side < near)) {
        row = row === null ? away : Math.min(row, away);
        near = side;
        best = to;
      }
    }
    return best;
  }

  // ---- one node
  function fact(list, name, ...value) {
    if (value.some((each) => each)) list.append(el("dt", null, name), el("dd", null, ...value));
  }
  function finding([at, began, ended]) {
    const it = data.findings[at];
    const item = el("li", { class: `f ${it.severity}${ended ? " over" : ""}` },
      el("b", null, it.rule), " ", it.subject ? bdi(it.subject) : "",
      el("span", { class: "dim" }, `${it.severity}, ${it.status === "fail" ? "failed" : "not measured"}, `
        + (ended ? `${utc(began)} to ${utc(ended)}: over` : `since ${utc(began)} (${ago(began)})`)
        + (it.owner ? `, ${WORDS[it.owner] || it.owner}` : "")));
    if (it.observed) item.append(el("p", null, bdi(it.observed), it.expected ? el("span", { class: "dim" }, "expected ", bdi(it.expected)) : ""));
    if (it.reason) item.append(el("p", null, bdi(it.reason)));
    if (it.remedy) item.append(el("p", null, bdi(it.remedy)));
    return item;
  }
  function spark(trend) {
    const points = trend.points, [first, last] = [points[0], points[points.length - 1]];
    const from = Math.min(first[0], last[0] - 3600), least = Math.min(...points.map((p) => p[1])), most = Math.max(...points.map((p) => p[1]));
    const x = (t) => (t - from) / Math.max(1, last[0] - from) * 124 + 4, y = (v) => 32 - (v - least) / Math.max(1, most - least) * 28;
    const text = `${trend.what} of ${trend.slot}: from ${first[1]} to ${last[1]}`;
    const picture = svg("svg", { viewBox: "0 0 132 36", role: "img", "aria-label": text }, text);
    // A counter keeps its value until it changes, so the line has steps.
    const line = points.map(([t, v], at) => (at ? `${x(t).toFixed(1)},${y(points[at - 1][1]).toFixed(1)} ` : "") + `${x(t).toFixed(1)},${y(v).toFixed(1)}`);
    picture.append(svg("line", { x1: 4, x2: 128, y1: 33.5, y2: 33.5 }), svg("polyline", { points: line.join(" ") }),
      svg("circle", { cx: x(last[0]).toFixed(1), cy: y(last[1]).toFixed(1), r: 2.6 }));
    return el("div", { class: "spark" }, picture, el("div", null, el("b", null, `+${count(trend.growth)}`), ` ${trend.what}`,
      el("span", { class: "dim" }, " ", bdi(trend.slot), `, ${count(first[1])} → ${count(last[1])} since ${utc(first[0])}`)));
  }
  function strip(states) {
    const end = data.made, start = end - 86400, picture = svg("svg", { class: "strip", viewBox: "0 0 1000 14", preserveAspectRatio: "none",
      role: "img", "aria-label": "States of 24 hours: " + states.map(([state, began]) => `${state} from ${utc(began)}`).join(", ") });
    states.forEach(([state, began], at) => {
      const from = Math.max(0, (began - start) / 86.4), to = at + 1 < states.length ? (states[at + 1][1] - start) / 86.4 : 1000;
      if (to > 0) picture.append(svg("rect", { class: `t-${state}`, x: from.toFixed(1), y: 0, width: Math.max(2, to - from).toFixed(1), height: 14 },
        `${state} from ${utc(began)}`));
    });
    return picture;
  }
  function detail(node) {
    const facts = el("dl"), made = [facts];
    fact(facts, "State", stateOf(node) + (node.since ? `, since ${utc(node.since)}` : ""));
    fact(facts, "Data", node.seen ? `${ago(node.seen)} (${utc(node.seen)})` : "no stored sweep has seen it");
    fact(facts, "Agent", node.by_agent ? `healthy by its agent at ${utc(node.by_agent)}; the newest sweep did not visit it` : "");
    fact(facts, "Lifecycle", node.lifecycle);
    fact(facts, "Next", node.owner ? swatch(node.owner) : "", node.owner ? ` ${WORDS[node.owner]}: ` : "no one has to act", bdi(node.turn || ""));
    fact(facts, "Why", node.why && !(node.findings || []).length ? bdi(node.why) : "");
    fact(facts, "Jobs", node.isolation === "evict" ? "kept away; running jobs should end" : node.isolation ? "kept away" : "");
    fact(facts, "Gate", node.gate + (node.gate_why ? ": " : ""), node.gate_why ? bdi(node.gate_why) : "");
    fact(facts, "Lent", node.lent ? bdi(node.lent) : "");
    fact(facts, "Certificate", node.certificate ? `${node.certificate[0]}: ${node.certificate[1]} burn-in, ${utc(node.certificate[2])}` : "");
    fact(facts, "Burn-in", node.burnin ? `${node.burnin} in the newest one` : "");
    fact(facts, "Incident", (node.incidents || []).join(", "));
    fact(facts, "Cordon", node.cordon || "");
    fact(facts, "Silenced", node.hidden ? bdi(node.hidden) : node.silenced ? count(node.silenced) : "");
    fact(facts, "RMA", node.rma || "");
    fact(facts, "Place", bdi([node.sku, node.rack, node.leaf].filter(Boolean).join(", ")));
    const title = (text) => made.push(el("h4", null, text));
    title("Next command");
    made.push(command(node.next));
    if (node.findings || node.more) {
      title("Findings and evidence");
      made.push(el("ul", null, ...(node.findings || []).map(finding)));
      if (node.more) made.push(el("p", { class: "dim" }, `${node.more} more:`), command(`muster history ${word(node.node)}`));
    }
    if (node.trends) {
      title(`Memory errors and remapped rows, ${data.days} days`);
      made.push(...node.trends.map(spark));
    }
    title("24 hours");
    if (node.states) made.push(strip(node.states), el("ol", { class: "log" }, ...node.states.map(([state, began]) => el("li", null, `${utc(began)} ${state}`))));
    else made.push(el("p", { class: "dim" }, "One state all the time."));
    if (node.actions) {
      made.push(el("ul", { class: "log" }, ...node.actions.map(([at, who, what, why, outcome]) => el("li", null,
        `${utc(at)} ${what}, by `, bdi(who), ": ", bdi(why), el("span", { class: "dim" }, " ", bdi(outcome))))));
    }
    title("More");
    made.push(el("div", null, command(`muster history ${word(node.node)} --since 7d`)), el("div", null, command(`muster evidence ${word(node.node)}`)));
    return made;
  }
  let before = null;
  function open(name, focus) {
    const node = nodes.find((each) => each.node === name);
    const box = $("detail");
    chosen.node = node ? name : "";
    if (!node) return shut();
    if (focus) before = document.activeElement;
    box.replaceChildren(el("header", null, el("h3", { class: `o-${ownerOf(node)}` }, shape(node), el("a", { href: address({ node: node.node }), title: "Link to this node" }, bdi(node.node))),
      el("button", { type: "button", class: "close", onclick: () => shut(true), "aria-keyshortcuts": "Escape" }, "Close")), ...detail(node));
    copies(box);
    box.hidden = false;
    box.parentElement.classList.add("open");
    box.scrollTop = 0;
    mark();
    keep();
    if (focus) box.focus({ preventScroll: true });
  }
  function shut(back) {
    const box = $("detail"), held = cells.find((each) => each.node.node === chosen.node);
    if (box.hidden) return;
    chosen.node = "";
    box.hidden = true;
    box.parentElement.classList.remove("open");
    mark();
    keep();
    if (back) (before && before.isConnected ? before : held)?.focus({ preventScroll: true });
  }

  function show() {
    fromAddress();
    $("find").value = chosen.q;
    $("group").value = chosen.group;
    $("as").value = chosen.as;
    const name = chosen.node;
    draw();
    if (name) {
      open(name, false);
      if (chosen.node) $("fleet").scrollIntoView({ behavior: "instant" });
    } else shut();
  }
  function ages() {
    for (const time of document.querySelectorAll("time[data-at]")) {
      if (!time.title) time.title = utc(Number(time.dataset.at));
      time.textContent = ago(Number(time.dataset.at));
    }
    for (const each of cells) {
      each.lastElementChild.textContent = brief(each.node.seen);
      each.title = label(each.node);
    }
  }

  for (const each of document.querySelectorAll(".js")) each.hidden = false;
  $("need").addEventListener("input", fits);
  let waiting = 0;
  $("find").addEventListener("input", (event) => {
    chosen.q = event.target.value;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 120);
  });
  for (const id of ["group", "as"]) $(id).addEventListener("change", (event) => { chosen[id] = event.target.value; draw(); });
  $("clear").addEventListener("click", () => {
    chosen.q = $("find").value = "";
    chosen.state.clear();
    chosen.owner.clear();
    draw();
    $("find").focus();
  });
  document.querySelector(".bar").addEventListener("submit", (event) => event.preventDefault());
  $("view").addEventListener("click", (event) => {
    const made = event.target.closest(".cell");
    if (made) open(made.node.node, true);
  });
  $("view").addEventListener("keydown", walk);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") shut(true);
    else if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      $("find").focus();
    }
  });
  window.addEventListener("hashchange", show);
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const each of folded) each.open = true;
  });
  window.addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
  copies(document);
  show();
  ages();
  setInterval(ages, 30000);
  // The first frame is there, and the next event would be answered.
  requestAnimationFrame(() => setTimeout(() => performance.mark("interactive"), 0));
})();
