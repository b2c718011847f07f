// Reads the JSON documents of this port every few seconds and shows them. Nothing is ever parsed as
// HTML: every name goes into the page as text.
"use strict";

const EVERY_MS = 5000;
const WINDOW_S = 60;
const UNKNOWN = "–";

const samples = []; // documents `cluster` of the last minute, the oldest first
const pages = { topics: 1, groups: 1, partitions: 1 };
let topicShown = "";

const byId = (id) => document.getElementById(id);

// Text of figures

const whole = (value) => (value === null || value === undefined ? UNKNOWN : value.toLocaleString("en-US"));

function short(value) {
  if (value === null) return UNKNOWN;
  if (value === 0) return "0";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function bytes(value) {
  if (value === null) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${short(value)} ${units[at]}`;
}

const milliseconds = (seconds) => (seconds === null ? UNKNOWN : `${short(seconds * 1000)} ms`);
const dollars = (value) => (value === null ? UNKNOWN : `$${value.toFixed(value >= 1 ? 2 : 4)}`);

// Rates: between the oldest document of the last minute and the newest, of one start of the broker

function rate(counter) {
  const [first, last] = [samples[0], samples[samples.length - 1]];
  const seconds = last.broker.at_s - first.broker.at_s;
  return seconds > 0 ? (counter(last) - counter(first)) / seconds : null;
}

function keep(cluster) {
  const last = samples[samples.length - 1];
  if (last && last.broker.epoch !== cluster.broker.epoch) samples.length = 0;
  samples.push(cluster);
  while (cluster.broker.at_s - samples[0].broker.at_s > WINDOW_S) samples.shift();
}

// Building the page

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Rows are lists of cells: a text, or {text, kind}, or a node; the first one heads its row.
function fill(table, rows, nothing) {
  const heads = byId(table).tHead.rows[0].cells;
  const body = element("tbody");
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, at) => {
      const made = element(at === 0 ? "th" : "td");
      if (at === 0) made.scope = "row";
      if (heads[at].className) made.className = heads[at].className;
      if (cell instanceof Node) made.append(cell);
      else if (typeof cell === "object") { made.textContent = cell.text; made.classList.add(cell.kind); }
      else made.textContent = cell;
      row.append(made);
    });
    body.append(row);
  }
  if (!rows.length) {
    const row = element("tr");
    const cell = element("td", nothing, "empty");
    cell.colSpan = heads.length;
    row.append(cell);
    body.append(row);
  }
  byId(table).tBodies[0].replaceWith(body);
}

function pager(id, kind, document_) {
  const place = byId(id);
  if (document_.pages <= 1 && pages[kind] <= 1) { place.replaceChildren(); return; }
  const step = (text, to) => {
    const button = element("button", text);
    button.type = "button";
    button.disabled = to < 1 || to > document_.pages;
    button.addEventListener("click", () => { pages[kind] = to; refresh(); });
    return button;
  };
  const first = pages[kind];
  place.replaceChildren(step("Previous", first - 1),
    element("span", `page ${first} of ${document_.pages}, ${whole(document_.total)} in all`),
    step("Next", first + 1));
}

const flagged = (value, kind) => (value ? { text: whole(value), kind } : "0");

function showFigures(cluster) {
  const controller = cluster.controller === null ? "none" : `broker ${cluster.controller}`;
  const alive = cluster.brokers.filter((one) => one.alive).length;
  const hourly = rate((one) => one.dollars.store + one.dollars.registry);
  const figures = [
    ["Brokers alive", whole(alive)],
    ["Controller", controller, cluster.controller === null ? "bad" : ""],
    ["Topics", whole(cluster.topics)],
    ["Partitions", whole(cluster.partitions)],
    ["Without leader", whole(cluster.partitions_without_leader), cluster.partitions_without_leader ? "bad" : ""],
    ["Bytes in, a second", bytes(rate((one) => one.traffic.bytes_in))],
    ["Bytes out, a second", bytes(rate((one) => one.traffic.bytes_out))],
    ["Records in since start", whole(cluster.traffic.records_in)],
    ["Dollars an hour", dollars(hourly === null ? null : hourly * 3600)],
    ["Format level", whole(cluster.format_level)],
  ];
  byId("figures").replaceChildren(...figures.map(([name, value, kind]) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", value, kind));
    return box;
  }));
}

function showBrokers(cluster) {
  fill("broker-table", cluster.brokers.map((one) => [
    String(one.id),
    one.alive ? { text: one.status, kind: one.status === "serving" ? "good" : "warn" }
      : { text: `gone (${one.status})`, kind: "bad" },
    `${one.host}:${one.port}`,
    one.rack,
    whole(one.led),
    String(one.epoch),
    `${whole(one.oldest_put_ms)} ms`,
    one.version,
  ]), "no broker");
  byId("broker-note").textContent = cluster.brokers_left_out
    ? `${whole(cluster.brokers_left_out)} more are not shown` : "";
}

function showFailovers(cluster) {
  const of = cluster.failovers;
  const mean = (sums) => (sums.count ? milliseconds(sums.seconds / sums.count) : UNKNOWN);
  const reasons = Object.entries(of.takeovers);
  fill("failover-table", [
    ["became the controller", whole(of.controller_terms), UNKNOWN],
    ["partitions it began to lead", whole(of.partitions_claimed), UNKNOWN],
    ["partitions it handed over", whole(of.partitions_released), UNKNOWN],
    ...reasons.map(([reason, count]) => [`takeover: ${reason}`, whole(count), UNKNOWN]),
    ...(reasons.length ? Object.entries(of.seconds) : []).map(
      ([part, sums]) => [`part of a takeover: ${part}`, whole(sums.count), mean(sums)]),
  ], "none");
}

function showRequests(cluster) {
  const first = samples[0];
  const rows = Object.entries(cluster.requests).map(([api, now]) => {
    const before = first.requests[api] || { count: 0, seconds: 0 };
    const count = now.count - before.count;
    return { api, rate: rate((one) => (one.requests[api] || before).count),
      mean: count ? (now.seconds - before.seconds) / count : null, total: now.count };
  });
  rows.sort((a, b) => b.rate - a.rate || b.total - a.total || (a.api < b.api ? -1 : 1));
  fill("request-table", rows.map((one) => [one.api, short(one.rate), milliseconds(one.mean), whole(one.total)]),
    "none yet");
  const seconds = cluster.broker.at_s - first.broker.at_s;
  byId("request-note").textContent = seconds > 0
    ? `Rates and means of the last ${Math.round(seconds)} s, at this broker.` : "Rates come with the next look.";
}

function leadersOf(topic) {
  const list = element("span");
  topic.leaders.forEach((one, at) => {
    if (at) list.append(", ");
    list.append(element("span", `${one.broker}: ${whole(one.partitions)}${one.alive ? "" : " (gone)"}`,
      one.alive ? "" : "bad"));
  });
  if (topic.leaders_left_out) list.append(`, and ${whole(topic.leaders_left_out)} more`);
  return list;
}

function showTopics(found) {
  fill("topic-table", found.topics.map((one) => [
    one.topic, whole(one.partitions), leadersOf(one), flagged(one.without_leader, "bad"),
    one.partitions_known ? whole(one.offsets_in_segments) : UNKNOWN,
    one.partitions_known ? whole(one.offsets_in_table) : UNKNOWN,
    whole(one.partitions - one.partitions_known),
  ]), "none");
  pager("topic-pager", "topics", found);
}

function showPartitions(found) {
  byId("partition-part").hidden = false;
  byId("partition-topic").textContent = found.topic || topicShown;
  fill("partition-table", (found.partitions || []).map((one) => [
    String(one.partition),
    one.leader_alive ? String(one.leader) : { text: `${one.leader} (gone)`, kind: "bad" },
    one.replicas.join(", "), String(one.leader_epoch),
    whole(one.log_start), whole(one.table_end), whole(one.end),
  ]), found.error || "none");
  pager("partition-pager", "partitions", { pages: found.pages || 1, total: found.total || 0 });
}

function showGroups(found) {
  fill("group-table", found.groups.map((one) => [
    one.group, one.state, whole(one.members),
    one.clients.join(", ") + (one.clients_left_out ? `, and ${whole(one.clients_left_out)} more` : ""),
    whole(one.lag),
    one.topics.map((of) => `${of.topic}: ${whole(of.lag)}`).join(", ")
      + (one.topics_left_out ? `, and ${whole(one.topics_left_out)} more` : ""),
    whole(one.lag_unknown),
  ]), found.loading ? "being loaded" : "none");
  pager("group-pager", "groups", found);
}

function showState(text, kind) {
  byId("state").textContent = text;
  byId("state").className = kind;
}

// Asking

async function ask(path) {
  const response = await fetch(`/api/v1/${path}`, { cache: "no-store" });
  return response.json();
}

async function look() {
  const cluster = await ask("cluster");
  const broker = cluster.broker;
  if (broker.id === undefined) { showState(broker.not_ready.join("; "), "warn"); return; }
  byId("who").textContent = `broker ${broker.id}, epoch ${broker.epoch}, ${broker.version}`;
  document.title = `logstore: broker ${broker.id}`;
  showState(broker.ready ? broker.state : `not ready: ${broker.not_ready.join("; ")}`, broker.ready ? "good" : "bad");
  keep(cluster);
  showFigures(cluster);
  showBrokers(cluster);
  showFailovers(cluster);
  showRequests(cluster);
  const [topics, groups] = [await ask(`topics/${pages.topics}`), await ask(`groups/${pages.groups}`)];
  if (topics.topics) showTopics(topics);
  if (groups.groups) showGroups(groups);
  if (topicShown) showPartitions(await ask(`partitions/${encodeURIComponent(topicShown)}/${pages.partitions}`));
}

let isLooking = false;
let isWanted = false;

async function refresh() {
  if (isLooking) { isWanted = true; return; }
  isLooking = true;
  do {
    isWanted = false;
    try {
      await look();
    } catch (error) {
      showState("the broker does not answer; figures are of before", "bad");
    }
  } while (isWanted);
  isLooking = false;
}

byId("topic-form").addEventListener("submit", (event) => {
  event.preventDefault();
  topicShown = byId("topic-name").value.trim();
  pages.partitions = 1;
  if (!topicShown) byId("partition-part").hidden = true;
  refresh();
});
setInterval(() => { if (!document.hidden) refresh(); }, EVERY_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
