export default function Traces(_props: { name?: string; id?: string }) {
  return null
}
