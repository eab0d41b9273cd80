export default function Servers(_props: { name?: string; id?: string }) {
  return null
}
