import { Center, Loader } from "@mantine/core";

export function Loading() {
  return (
    <Center h="40vh" role="status" aria-label="Loading">
      <Loader size="sm" />
    </Center>
  );
}
