"use strict";

// Shows the document of the bus: its channels with their messages, headers and examples.
const main = document.getElementById("bus");

function add(parent, tag, text) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function resolve(whole, value) {
  while (value && value.$ref) {
    value = value.$ref.slice(2).split("/").reduce((at, key) => at[key.replaceAll("~1", "/").replaceAll("~0", "~")], whole);
  }
  return value;
}

function table(parent, head, rows) {
  if (rows.length === 0) return;
  const t = add(parent, "table");
  const first = add(t, "tr");
  head.forEach((text) => add(first, "th", text));
  for (const row of rows) {
    const tr = add(t, "tr");
    row.forEach((text, i) => (i === 0 ? add(add(tr, "td"), "code", text) : add(tr, "td", text)));
  }
}

function headerRows(whole, message) {
  const headers = resolve(whole, message.headers);
  return Object.entries(headers?.properties ?? {}).map(([name, schema]) => [name, schema.description ?? ""]);
}

function showMessage(whole, parent, message) {
  add(parent, "h3", message.title ?? message.name);
  if (message.description) add(parent, "p", message.description);
  table(parent, ["Header", "Meaning"], headerRows(whole, message));
  for (const example of message.examples ?? []) {
    add(parent, "p", example.summary ?? "Example");
    const headers = Object.entries(example.headers ?? {}).map(([name, value]) => name + ": " + value + "\n");
    add(parent, "pre", headers.join("") + (headers.length ? "\n" : "") + JSON.stringify(example.payload, null, 2));
  }
}

function show(whole) {
  main.replaceChildren();
  add(main, "h1", whole.info.title);
  add(main, "p", whole.info.description);
  for (const [id, channel] of Object.entries(whole.channels)) {
    add(main, "h2", channel.title ?? id);
    add(add(main, "p"), "code", channel.address);
    if (channel.description) add(main, "p", channel.description);
    table(main, ["Parameter", "Meaning"], Object.entries(channel.parameters ?? {}).map(([name, p]) => [name, resolve(whole, p).description ?? ""]));
    Object.values(channel.messages).forEach((message) => showMessage(whole, main, resolve(whole, message)));
  }
}

fetch("/asyncapi")
  .then((answer) => answer.json())
  .then(show)
  .catch(() => add(main, "p", "The document can't be read now."));
