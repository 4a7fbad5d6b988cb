"use strict";
// A link in a title would leave the page with one click.
for (const kind of ["click", "auxclick"]) {
  addEventListener(kind, (event) => { if (event.target.closest?.("a")) event.preventDefault(); }, true);
}

const chart = document.getElementById("chart");
const tell = (text) => {
  const note = document.createElement("p");
  note.style.font = "16px sans-serif";
  note.textContent = text;
  chart.before(note);
};

// Plotly draws these kinds with code that it generates, which the policy forbids. Their twins are drawn as SVG.
const TWINS = new Map([["scattergl", "scatter"], ["scatterpolargl", "scatterpolar"]]);
// These have no twin, or load tiles from the network. The last three are of older versions of plotly.
const UNDRAWN = [
  "splom", "parcoords",
  "scattermap", "choroplethmap", "densitymap",
  "scattermapbox", "choroplethmapbox", "densitymapbox",
];
const SHAPES = ["choropleth", "scattergeo"];

// Whether the shapes of a map come from the network: all but those in the data of the figure.
const loadsShapes = ({ type, locations, geojson, locationmode }) => {
  if (!SHAPES.includes(type) || !locations || locations.length === 0) return false;
  const mode = locationmode ?? (geojson ? "geojson-id" : "ISO-3");
  return mode !== "geojson-id" || typeof geojson === "string";
};

// Plotly would wait for the outlines of a map and then draw nothing at all.
const LAYERS = ["coastlines", "land", "ocean", "lakes", "rivers", "countries", "subunits"];
const empty = LAYERS.map((layer) => [layer, { type: "GeometryCollection", geometries: [] }]);
const outlines = { type: "Topology", arcs: [], objects: Object.fromEntries(empty) };
window.PlotlyGeoAssets = { topojson: new Proxy({}, { get: () => outlines }) };

// Makes traces drawable in place, because frames count them. Returns the kinds that are left out.
const prepare = (traces) => {
  const undrawn = new Set();
  for (const trace of traces) {
    if (TWINS.has(trace.type)) trace.type = TWINS.get(trace.type);
    if (UNDRAWN.includes(trace.type) || loadsShapes(trace)) {
      undrawn.add(trace.type);
      Object.assign(trace, { type: "scatter", visible: false });
    }
  }
  return [...undrawn];
};

const draw = async () => {
  const { data, layout, frames } = JSON.parse(document.getElementById("figure").textContent);
  const traces = data ?? [];
  const undrawn = prepare([...traces, ...(frames ?? []).flatMap((frame) => frame.data ?? [])]);
  if (undrawn.length > 0) {
    tell(`This page cannot draw ${undrawn.join(", ")}: plotly needs generated code or map data from the network for it, and the page allows neither.`);
    if (traces.every((trace) => trace.visible === false)) return;
  }
  const config = { displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "" };
  await Plotly.newPlot("chart", { data: traces, layout, frames, config });
};

draw().catch((error) => tell(`This page cannot draw all of the figure: ${error.message}`));
