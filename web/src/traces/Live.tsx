export default function Live(_props: { name?: string; id?: string }) {
  return null
}
