// Notifications of the browser. The user is asked once, by a button; while the tab is visible nothing is sent.
export function mayAskForNotifications(): boolean {
  return "Notification" in window && Notification.permission === "default"
}

/** Ask the user, and return whether notifications may be shown. */
export async function askForNotifications(): Promise<boolean> {
  return (await Notification.requestPermission()) === "granted"
}

/** Show a notification if the tab is hidden and the user has allowed it. A click on it calls `onOpen` in the tab. */
export function notifyHidden(title: string, body: string, tag: string, onOpen: () => void): void {
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return
  try {
    const notification = new Notification(title, { body, tag })
    notification.onclick = () => {
      window.focus()
      onOpen()
      notification.close()
    }
  } catch {
    // Some browsers on phones have the interface and refuse to use it from a page.
  }
}
