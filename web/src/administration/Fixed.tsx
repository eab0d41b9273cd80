// The settings that the server reads when it starts, and where each is set. Read-only.
import { useAdministrationText } from "../locales/administration"
import { useSettings } from "./settings/requests"

const DEFAULT = "default"

export function Fixed() {
  const a = useAdministrationText()
  const { data, problem } = useSettings()
  return (
    <>
      <p className="about">{a("fixed.about")}</p>
      {problem && !data && <p className="problem">{problem}</p>}
      {data && (
        <div className="table-frame" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">{a("fixed.setting")}</th>
                <th scope="col">{a("fixed.value")}</th>
                <th scope="col">{a("fixed.where")}</th>
              </tr>
            </thead>
            <tbody>
              {data.fixed.map(({ name, value, location }) => (
                <tr key={name}>
                  <td>
                    <code>{name}</code>
                  </td>
                  <td className="fixed-value">
                    <code>{value}</code>
                  </td>
                  <td>{location === DEFAULT ? a("fixed.default") : location}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}
