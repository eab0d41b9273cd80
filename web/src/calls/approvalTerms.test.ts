import { describe, expect, test } from "vitest"
import type { Translate } from "../locales"
import type { CallView } from "../state/view"
import type { CallParked } from "../wire/types"
import { countRemaining, describeWait, mayDecideCall } from "./approvalTerms"

const ANN = { user: "ann", roles: ["finance"] }
const KIM = { user: "kim", roles: ["approver"] }

function ask(more: Partial<CallView>): CallView {
  const call = { type: "call" as const, id: "a", at: 0, tool: "pay", arguments: {} }
  return { id: "a", call, phase: "asking", requestedAt: 0, ...more }
}

describe("a call", () => {
  test("is decided by its owner or an approver unless it says otherwise", () => {
    expect([mayDecideCall(ask({}), ANN, true), mayDecideCall(ask({}), ANN, false), mayDecideCall(ask({}), KIM, false)]).toEqual([true, false, true])
  })

  test("that others decide is not for its owner", () => {
    const call = ask({ terms: { other: true } })
    expect([mayDecideCall(call, KIM, true), mayDecideCall(call, KIM, false)]).toEqual([false, true])
  })

  test("with approvers is for them alone, by role or by name", () => {
    const call = ask({ terms: { other: true, approvers: ["role:finance", "user:dan"] } })
    expect([ANN, KIM, { user: "dan", roles: [] }].map((me) => mayDecideCall(call, me, false))).toEqual([true, false, true])
  })

  test("counts each person once", () => {
    const call = ask({ terms: { approvers: ["role:finance"], quorum: 2 }, approvedBy: ["ann"] })
    expect([mayDecideCall(call, ANN, false), countRemaining(call)]).toEqual([false, 1])
  })
})

describe("a run that waits", () => {
  const t = ((key: string, values?: { name?: string }) => values?.name ?? key) as Translate
  const parked = (kind: "client" | "question") => ask({ phase: "parked", parked: { type: "call.parked", call_id: "a", kind } as CallParked })

  test("waits for the user only if the user may decide one of its calls", () => {
    const call = ask({ terms: { approvers: ["role:finance"] } })
    expect([describeWait([call], KIM, "kim", t), describeWait([call], ANN, "kim", t)]).toEqual(["finance", ""])
    expect([describeWait([call, ask({})], KIM, "kim", t), describeWait([ask({})], ANN, "bob", t)]).toEqual(["", "bob"])
  })

  test("waits for the application that runs a call, and for its owner with a question", () => {
    expect([describeWait([parked("client")], ANN, "ann", t), describeWait([parked("question")], ANN, "ann", t)]).toEqual(["chat.application", ""])
  })
})
