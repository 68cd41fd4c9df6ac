import { Center, Loader } from "@mantine/core";

export function Waiting() {
  return (
    <Center h="40vh" role="status" aria-label="Loading">
      <Loader size="sm" />
    </Center>
  );
}
