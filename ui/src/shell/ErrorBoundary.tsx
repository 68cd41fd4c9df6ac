/** Says what went wrong where a part of the page cannot be drawn, in place of nothing at all. */
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
    // A part that cannot be loaded: the server has another version than this tab.
    const isOld = /import|module|chunk/i.test(error.message);
    return (
      <Stack p="xl" align="flex-start" role="alert">
        <Title order={1}>{isOld ? "There is a new version" : "This page cannot be shown"}</Title>
        <Text size="sm">
          {isOld
            ? "The server was updated since you opened the page."
            : `Something in it broke: ${error.message}`}
        </Text>
        <Button onClick={() => window.location.reload()}>Load it anew</Button>
      </Stack>
    );
  }
}
