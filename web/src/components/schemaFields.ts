// What a form needs to know of a JSON Schema: which fields there are, of which kind, and what they begin with. Pure.
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

export type Kind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "lines" | "object" | "json"

export interface Field {
  name: string
  schema: Schema
  kind: Kind
  required: boolean
  options: { value: unknown; label: string }[]
}

const LONG = 200
/** Deeper objects are written as JSON: a schema may refer to itself without end. */
export const MOST_DEPTH = 3

export function fieldsOf(schema: Schema, root: Schema = schema, depth = 0): Field[] {
  const resolved = resolve(schema, root)
  const required = Array.isArray(resolved.required) ? resolved.required : []
  return Object.entries(resolved.properties ?? {}).map(([name, one]) => {
    const own = resolve(one, root)
    const kind = kindOf(own, root)
    return { name, schema: own, kind: kind === "object" && depth >= MOST_DEPTH ? "json" : kind, required: required.includes(name), options: optionsOf(own) }
  })
}

/** Follows references, and takes "this or null" for this. */
export function resolve(schema: Schema, root: Schema, depth = 0): Schema {
  if (depth > 10 || typeof schema !== "object" || schema === null) return {}
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1) ?? ""
    const found = (root.$defs ?? root.definitions ?? {})[name] ?? {}
    const { $ref: _, ...rest } = schema
    const { title: __, ...meant } = resolve(found, root, depth + 1) // what the type is called is not what the field is
    return { ...meant, ...rest }
  }
  const several = schema.anyOf ?? schema.oneOf
  const real = several?.filter((one) => one.type !== "null")
  if (several && real?.length === 1 && real[0]) {
    const { anyOf: _, oneOf: __, ...rest } = schema
    return { ...resolve(real[0], root, depth + 1), ...rest }
  }
  if (schema.allOf?.length === 1 && schema.allOf[0]) {
    const { allOf: _, ...rest } = schema
    return { ...resolve(schema.allOf[0], root, depth + 1), ...rest }
  }
  return schema
}

function kindOf(schema: Schema, root: Schema): Kind {
  if (optionsOf(schema).length) return "choice"
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type
  switch (type) {
    case "string":
      return (schema.maxLength ?? 0) > LONG ? "long" : "text"
    case "number":
    case "integer":
    case "boolean":
      return type
    case "array":
      return resolve(schema.items ?? {}, root).type === "string" ? "lines" : "json"
    case "object":
      return schema.properties ? "object" : "json"
    default:
      return schema.properties ? "object" : "json"
  }
}

function optionsOf(schema: Schema): { value: unknown; label: string }[] {
  if (Array.isArray(schema.enum)) return schema.enum.map((value, index) => ({ value, label: schema.enumNames?.[index] ?? String(value) }))
  const titled = schema.oneOf ?? schema.anyOf
  if (titled?.length && titled.every((one) => "const" in one)) return titled.map((one) => ({ value: one.const, label: one.title ?? String(one.const) }))
  return []
}

/** What the fields begin with where nothing was given. */
export function defaults(schema: Schema): Record<string, unknown> {
  return Object.fromEntries(
    fieldsOf(schema).flatMap((field): [string, unknown][] => {
      if (field.schema.default !== undefined && field.schema.default !== null) return [[field.name, field.schema.default]]
      if (field.kind === "boolean" && field.required) return [[field.name, false]]
      return []
    }),
  )
}

/** The names of required fields that have no value yet. */
export function missing(schema: Schema, value: Record<string, unknown>): string[] {
  return fieldsOf(schema).flatMap((field) => (field.required && (value[field.name] === undefined || value[field.name] === "") && field.kind !== "lines" ? [field.name] : []))
}
