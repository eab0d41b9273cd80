// What a form needs to know of a JSON Schema: its fields, their kinds and their initial values. Pure.
import { humanize } from "./humanize"

export interface Schema {
  type?: string | string[]
  title?: string
  description?: string
  enum?: unknown[]
  enumNames?: string[]
  oneOf?: Schema[]
  const?: unknown
  anyOf?: Schema[]
  allOf?: Schema[]
  $ref?: string
  $defs?: Record<string, Schema>
  definitions?: Record<string, Schema>
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  default?: unknown
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  pattern?: string
}

export type FieldKind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "lines" | "object" | "json"

export interface Field {
  name: string
  schema: Schema
  kind: FieldKind
  required: boolean
  options: { value: unknown; label: string }[]
}

/** A text field of more characters is a textarea. */
const MAX_LINE_CHARS = 200
/** Deeper objects are edited as JSON: a schema may refer to itself without end. */
const MAX_DEPTH = 3

/** A reference may lead to itself. */
const MAX_REFERENCES = 10

/** Return whether a text needs several lines to be read. */
export function isLongText(text: string): boolean {
  return text.length > MAX_LINE_CHARS || text.includes("\n")
}

export function listFields(schema: Schema, root: Schema = schema, depth = 0): Field[] {
  const resolved = resolve(schema, root)
  const required = Array.isArray(resolved.required) ? resolved.required : []
  return Object.entries(resolved.properties ?? {}).map(([name, property]) => toField(name, property, root, depth, required.includes(name)))
}

/** Return what a value in a list is, as a field without a name. */
export function getItemField({ schema }: Field, root: Schema, depth: number): Field {
  return toField("", schema.items ?? {}, root, depth)
}

function toField(name: string, property: Schema, root: Schema, depth: number, required = false): Field {
  const schema = resolve(property, root)
  const kind = chooseKind(schema, root)
  return { name, schema, kind: kind === "object" && depth >= MAX_DEPTH ? "json" : kind, required, options: listOptions(schema) }
}

/** Return the format of a text: that of its schema, or the one of several ("a day or a time") that it is in. */
export function findFormat(schema: Schema, text: string): string | undefined {
  const formats = schema.format ? [schema.format] : listTextAlternatives(schema).map(({ format }) => format)
  const shape = /^\d{4}-\d\d-\d\d$/.test(text) ? "date" : /^\d{4}-\d\d-\d\dT/.test(text) ? "date-time" : ""
  return formats.find((format) => format === shape)
}

/** Return the alternatives of a schema if each is a text or null. */
function listTextAlternatives({ anyOf, oneOf }: Schema): Schema[] {
  const alternatives = (anyOf ?? oneOf ?? []).filter(({ type }) => type !== "null")
  return alternatives.every(({ type }) => type === "string") ? alternatives : []
}

/** Return what people read in place of a field's name. */
export function nameField({ name, schema }: Pick<Field, "name" | "schema">): string {
  return schema.title ?? humanize(name)
}

/** Return the schema with references followed. "This or null" becomes this: an empty field stands for null. */
export function resolve(schema: Schema, root: Schema, depth = 0): Schema {
  if (depth > MAX_REFERENCES || typeof schema !== "object" || schema === null) return {}
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1) ?? ""
    const referenced = (root.$defs ?? root.definitions ?? {})[name] ?? {}
    const { $ref: _, ...rest } = schema
    const { title: __, ...target } = resolve(referenced, root, depth + 1) // its title names the type, not the field
    return { ...target, ...rest }
  }
  const alternatives = schema.anyOf ?? schema.oneOf
  const nonNull = alternatives?.filter((alternative) => alternative.type !== "null")
  if (alternatives && nonNull?.length === 1 && nonNull[0]) {
    const { anyOf: _, oneOf: __, ...rest } = schema
    return { ...resolve(nonNull[0], root, depth + 1), ...rest }
  }
  if (schema.allOf?.length === 1 && schema.allOf[0]) {
    const { allOf: _, ...rest } = schema
    return { ...resolve(schema.allOf[0], root, depth + 1), ...rest }
  }
  return schema
}

function chooseKind(schema: Schema, root: Schema): FieldKind {
  if (listOptions(schema).length) return "choice"
  const type = Array.isArray(schema.type) ? schema.type.find((name) => name !== "null") : schema.type
  switch (type) {
    case "string":
      return (schema.maxLength ?? 0) > MAX_LINE_CHARS ? "long" : "text"
    case "number":
    case "integer":
    case "boolean":
      return type
    case "array":
      return resolve(schema.items ?? {}, root).type === "string" ? "lines" : "json"
    case "object":
      return schema.properties ? "object" : "json"
    default:
      return schema.properties ? "object" : listTextAlternatives(schema).length ? "text" : "json"
  }
}

function listOptions(schema: Schema): { value: unknown; label: string }[] {
  if (Array.isArray(schema.enum)) return schema.enum.map((value, index) => ({ value, label: schema.enumNames?.[index] ?? String(value) }))
  const constants = schema.oneOf ?? schema.anyOf
  if (constants?.length && constants.every((option) => "const" in option)) return constants.map((option) => ({ value: option.const, label: option.title ?? String(option.const) }))
  return []
}

/** Return the initial values of the fields that have one. */
export function listDefaults(schema: Schema): Record<string, unknown> {
  return Object.fromEntries(
    listFields(schema).flatMap((field): [string, unknown][] => {
      if (field.schema.default !== undefined && field.schema.default !== null) return [[field.name, field.schema.default]]
      if (field.kind === "boolean" && field.required) return [[field.name, false]]
      return []
    }),
  )
}

/** Return the edited values without defaults that the form filled in, where there was no value before. */
export function withoutAddedDefaults(schema: Schema, before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const defaults = listDefaults(schema)
  const isAdded = (name: string) => before[name] === undefined && JSON.stringify(after[name]) === JSON.stringify(defaults[name])
  return Object.fromEntries(Object.entries(after).filter(([name]) => !isAdded(name)))
}

/** Return the names of the required fields that have no value yet. */
export function listMissing(schema: Schema, value: Record<string, unknown>): string[] {
  return listFields(schema).flatMap((field) => (field.required && (value[field.name] === undefined || value[field.name] === "") && field.kind !== "lines" ? [field.name] : []))
}
