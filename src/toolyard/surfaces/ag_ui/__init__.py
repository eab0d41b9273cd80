"""`/ag-ui`: the AG-UI protocol, which CopilotKit and the clients of `@ag-ui` speak."""
