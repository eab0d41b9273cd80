// Shows a message where a component fails to render. Tools and servers send any data, and one row that cannot be rendered
// must not take the rest of the page with it.
import { Component, type ReactNode } from "react"
import { describeError } from "../wire/http"

interface ErrorBoundaryProps {
  /** A new key renders the children again after an error. */
  resetKey?: string
  message: string
  children: ReactNode
}

interface ErrorBoundaryState {
  resetKey: string | undefined
  problem: string
}

export class ErrorBoundary extends Component<ErrorBoundaryProps, ErrorBoundaryState> {
  override state: ErrorBoundaryState = { resetKey: this.props.resetKey, problem: "" }

  static getDerivedStateFromProps({ resetKey }: ErrorBoundaryProps, state: ErrorBoundaryState): ErrorBoundaryState | null {
    return resetKey === state.resetKey ? null : { resetKey, problem: "" }
  }

  static getDerivedStateFromError(error: unknown): Partial<ErrorBoundaryState> {
    return { problem: describeError(error) }
  }

  override render(): ReactNode {
    if (!this.state.problem) return this.props.children
    return (
      <p className="problem" role="alert" title={this.state.problem}>
        {this.props.message}
      </p>
    )
  }
}
