"use strict";
// Draws /openapi.json. Everything is put in as text, never as markup.
const el = (tag, props, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};

const typeOf = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" | ");
  const type = [].concat(schema.type || "any").join(" | ");
  return schema.items ? `array of ${typeOf(schema.items)}` : type;
};

const limits = (schema) => {
  const names = { minimum: "≥", maximum: "≤", minLength: "length ≥", maxLength: "length ≤", maxItems: "entries ≤", default: "default" };
  return Object.entries(names)
    .filter(([key]) => schema[key] !== undefined)
    .map(([key, word]) => `${word} ${JSON.stringify(schema[key])}`)
    .join(", ");
};

const fields = (spec, schema, seen = []) => {
  if (!schema) return [];
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    if (seen.includes(name)) return [];
    return fields(spec, spec.components.schemas[name], [...seen, name]);
  }
  if (schema.items) return fields(spec, schema.items, seen);
  const required = schema.required || [];
  return Object.entries(schema.properties || {}).map(([name, s]) =>
    el("tr", {},
      el("td", {}, el("code", { textContent: name + (required.includes(name) ? " *" : "") })),
      el("td", { textContent: typeOf(s) }),
      el("td", { textContent: [s.description, limits(s)].filter(Boolean).join(" · ") })));
};

const table = (title, rows) =>
  rows.length ? [el("h4", { textContent: title }), el("table", {}, ...rows)] : [];

const operation = (spec, method, path, op) => {
  const body = Object.entries(op.requestBody?.content || {});
  const answers = Object.entries(op.responses || {}).filter(([code]) => code !== "default");
  const content = el("div", {});
  content.append(
    ...table("Parameters", (op.parameters || []).map((p) =>
      el("tr", {}, el("td", {}, el("code", { textContent: `${p.name} (${p.in})` })),
        el("td", { textContent: typeOf(p.schema) }), el("td", { textContent: p.description || "" })))),
    ...body.flatMap(([media, m]) => table(`Body, ${media}`, fields(spec, m.schema))),
    ...answers.flatMap(([code, answer]) => {
      const media = Object.values(answer.content || {})[0];
      const rows = fields(spec, media?.schema);
      return rows.length ? table(`Answer ${code}: ${typeOf(media.schema)}`, rows)
        : [el("p", { className: "quiet", textContent: `Answer ${code}: ${answer.description || ""}` })];
    }));
  const box = el("details", {},
    el("summary", {}, el("span", { className: "method", textContent: method.toUpperCase() }),
      el("code", { textContent: path }), el("span", { className: "quiet", textContent: op.summary || "" })), content);
  box.dataset.words = `${method} ${path} ${op.summary || ""} ${op.operationId}`.toLowerCase();
  return box;
};

const draw = (spec) => {
  document.getElementById("about").textContent = `${spec.info.description} Version ${spec.info.version}. A field with * is needed.`;
  const byTag = {};
  for (const [path, item] of Object.entries(spec.paths))
    for (const method of ["get", "post", "put", "patch", "delete"])
      if (item[method]) (byTag[item[method].tags?.[0] || "other"] ||= []).push(operation(spec, method, path, item[method]));
  const main = document.getElementById("operations");
  for (const tag of spec.tags || [])
    if (byTag[tag.name])
      main.append(el("section", {}, el("h2", { textContent: tag.name }), el("p", { className: "quiet", textContent: tag.description }), ...byTag[tag.name]));
  document.getElementById("filter").addEventListener("input", (event) => {
    const word = event.target.value.toLowerCase();
    for (const box of main.querySelectorAll("details")) box.hidden = !box.dataset.words.includes(word);
    for (const part of main.querySelectorAll("section")) part.hidden = !part.querySelector("details:not([hidden])");
  });
};

fetch("/openapi.json").then((answer) => answer.json()).then(draw, () => {
  document.getElementById("about").textContent = "The description could not be read.";
});
