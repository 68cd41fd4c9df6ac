/** With a token, or at the identity provider where the server knows one. */
import { Button, Code, Divider, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ProblemAlert } from "../../shell/Problem";
import { useWays } from "./requests";

export function SignInForm({ onSignIn }: { onSignIn: (token: string) => Promise<void> }) {
  const [token, setToken] = useState("");
  const ways = useWays();
  const signing = useMutation({ mutationFn: onSignIn, gcTime: 0 });
  return (
    <Stack>
      {ways.data?.oidc && (
        <>
          <Button
            component="a"
            href={`${ways.data.oidc.url}?next=${encodeURIComponent(whereToGo())}`}
            fullWidth
          >
            Sign in with {new URL(ways.data.oidc.issuer).host}
          </Button>
          <Divider label="or" />
        </>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          signing.mutate(token.trim());
        }}
      >
        <Stack gap="sm">
          <PasswordInput
            label="Token"
            value={token}
            onChange={(event) => setToken(event.currentTarget.value)}
            autoComplete="off"
            data-autofocus
            visibilityToggleButtonProps={{ "aria-label": "Show the token", tabIndex: 0 }}
          />
          <ProblemAlert error={signing.error} />
          <Button
            type="submit"
            loading={signing.isPending}
            disabled={!token.trim()}
            variant={ways.data?.oidc ? "default" : "filled"}
          >
            Sign in
          </Button>
        </Stack>
      </form>
      <Text size="xs" c="dimmed">
        {ways.data?.link
          ? "On this machine, the link that "
          : "An administrator makes tokens with the page Tokens. On the server's machine, "}
        <Code>fairlead up</Code>{" "}
        {ways.data?.link ? "prints signs you in without one." : "shows one when it starts."}
      </Text>
    </Stack>
  );
}

function whereToGo(): string {
  const { pathname, search } = window.location;
  return pathname === "/sign-in" ? "/" : pathname + search;
}
