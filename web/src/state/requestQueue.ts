// What is asked of one conversation takes turns: a message is sent after the change of tools that was made before it.
const last = new Map<string, Promise<unknown>>()

/** Begin `work` when all that was asked of this conversation before has ended, well or not. */
export function inTurn<T>(conversation: string, work: () => Promise<T>): Promise<T> {
  const mine = (last.get(conversation) ?? Promise.resolve()).then(work, work)
  const done = mine.then(ended, ended)
  last.set(conversation, done)
  return mine

  function ended(): void {
    if (last.get(conversation) === done) last.delete(conversation)
  }
}
