export default function Tools(_props: { name?: string; id?: string }) {
  return null
}
