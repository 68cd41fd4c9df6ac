/** Sign-in with a token, or with the identity provider if one is configured. */
import { Button, Code, Divider, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ProblemAlert } from "../../shell/Problem";
import { useSignInMethods } from "./requests";

export function SignInForm({ onSignIn }: { onSignIn: (token: string) => Promise<void> }) {
  const [token, setToken] = useState("");
  const methods = useSignInMethods();
  // The token must not stay in the cache.
  const signing = useMutation({ mutationFn: onSignIn, gcTime: 0 });
  return (
    <Stack>
      {methods.data?.oidc && (
        <>
          <Button
            component="a"
            href={`${methods.data.oidc.url}?next=${encodeURIComponent(returnAddress())}`}
            fullWidth
          >
            Sign in with {new URL(methods.data.oidc.issuer).host}
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
            visibilityToggleButtonProps={{ "aria-label": "Show token", tabIndex: 0 }}
          />
          <ProblemAlert error={signing.error} />
          <Button
            type="submit"
            loading={signing.isPending}
            disabled={!token.trim()}
            variant={methods.data?.oidc ? "default" : "filled"}
          >
            Sign in
          </Button>
        </Stack>
      </form>
      <Text size="xs" c="dimmed">
        {methods.data?.link
          ? "Running locally? Use the sign-in link printed by "
          : "Ask an administrator for a token. On the server machine, use the token printed by "}
        <Code>fairlead up</Code>.
      </Text>
    </Stack>
  );
}

function returnAddress(): string {
  const { pathname, search } = window.location;
  return pathname === "/sign-in" ? "/" : pathname + search;
}
