/** Shows an error message if a part of the page fails to render. */
import { Button, Stack, Text, Title } from "@mantine/core";
import { Component, type ReactNode } from "react";

interface Props {
  children: ReactNode;
}

export class ErrorBoundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    // A chunk cannot be loaded if the server runs a newer version than this tab.
    const isOutdated = /import|module|chunk/i.test(error.message);
    return (
      <Stack p="xl" align="flex-start" role="alert">
        <Title order={1}>{isOutdated ? "New version available" : "Something went wrong"}</Title>
        <Text size="sm">
          {isOutdated ? "The server was updated after you opened this page." : error.message}
        </Text>
        <Button onClick={() => window.location.reload()}>Reload</Button>
      </Stack>
    );
  }
}
