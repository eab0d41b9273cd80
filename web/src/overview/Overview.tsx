export default function Overview(_props: { name?: string; id?: string }) {
  return null
}
