export default function Servers(_: { id: string }) {
  return null
}
