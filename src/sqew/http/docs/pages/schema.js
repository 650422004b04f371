// What a JSON schema says, in words and rows.

const DEEPEST = 4;
const TEN_YEARS_MS = 10 * 366 * 86_400_000;

/** Follows a reference to where it leads; what is said beside it stays. */
export function resolved(schema, spec) {
  if (!schema.$ref) return schema;
  const target = schema.$ref.slice(2).split("/").reduce((node, step) => node[step], spec);
  const { $ref, ...beside } = schema;
  return { ...target, ...beside, named: $ref.split("/").pop() };
}

/** The type in a few words: "integer", "array of NewItem", "string or null". */
export function typeOf(schema, spec) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map((way) => typeOf(way, spec)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return schema.items ? `array of ${typeOf(schema.items, spec)}` : "array";
  if (schema.type === "object" && schema.additionalProperties?.type) return `object of ${schema.additionalProperties.type}s`;
  if (schema.format) return schema.format === "uuid" ? "UUID" : `${schema.type} (${schema.format})`;
  return schema.type ?? "any JSON";
}

/** Default and bounds, as short notes. */
export function notesOf(schema) {
  const notes = [];
  const bounds = boundsOf(schema);
  if (schema.default !== undefined && schema.default !== null) notes.push(`default ${JSON.stringify(schema.default)}`);
  if (bounds) notes.push(bounds);
  return notes;
}

function boundsOf(schema) {
  const { minimum, maximum } = [schema, ...(schema.anyOf ?? [])].find((way) => "minimum" in way || "maximum" in way) ?? {};
  if (maximum === TEN_YEARS_MS) return minimum ? `${minimum} ms to 10 years` : "at most 10 years";
  // An id's bound: it is of no use to a reader, and more than a JavaScript number can say.
  if (maximum > Number.MAX_SAFE_INTEGER) return "";
  if (minimum !== undefined && maximum !== undefined) return `${shown(minimum)} to ${shown(maximum)}`;
  if (minimum !== undefined) return `at least ${shown(minimum)}`;
  return maximum === undefined ? "" : `at most ${shown(maximum)}`;
}

function shown(number) {
  return number.toLocaleString("en");
}

/** The fields of an object, those inside it included: {name, depth, type, notes, required, description}. */
export function rowsOf(schema, spec, depth = 0) {
  const inner = objectIn(schema, spec);
  if (!inner || depth >= DEEPEST) return [];
  const fields = Object.entries(inner.properties).map(([name, field]) => ({
    name,
    field,
    required: (inner.required ?? []).includes(name),
  }));
  return requiredFirst(fields).flatMap(({ name, field, required }) => [
    { name, depth, type: typeOf(field, spec), notes: notesOf(field), required, description: field.description ?? "" },
    ...rowsOf(field, spec, depth + 1),
  ]);
}

/** The same, with those that must be there before those that may; both in their order. */
export function requiredFirst(fields) {
  return [...fields.filter(({ required }) => required), ...fields.filter(({ required }) => !required)];
}

/** The object that a schema is about: itself, an entry of its array or map, or one of its alternatives. */
function objectIn(schema, spec) {
  const known = resolved(schema, spec);
  if (known.properties) return known;
  const inside = [...(known.anyOf ?? []), known.items, known.additionalProperties].filter((way) => way && way !== true);
  for (const way of inside) {
    const found = objectIn(way, spec);
    if (found) return found;
  }
  return null;
}
