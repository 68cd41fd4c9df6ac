import { Anchor, Stack, Text, Title } from "@mantine/core";
import { Link, useLocation } from "wouter";

export function NotFoundPage() {
  const [path] = useLocation();
  return (
    <Stack gap="xs" p="xl">
      <Title order={1}>Page not found</Title>
      <Text c="dimmed">No page exists at {path}.</Text>
      <Anchor component={Link} href="/runs">
        Go to runs
      </Anchor>
    </Stack>
  );
}
