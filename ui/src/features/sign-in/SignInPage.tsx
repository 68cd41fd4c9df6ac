import { Alert, Paper, Stack, Text, Title } from "@mantine/core";
import { SignInForm } from "./SignInForm";
import classes from "./SignInPage.module.css";

/** Texts for the codes in `?failed=`. Other values are ignored, so that a link cannot show any other text. */
const FAILURES = new Map([
  ["link", "This sign-in link is not valid, has expired or has already been used."],
  [
    "issuer",
    "The identity provider did not confirm the sign-in. Try again. The server log contains the reason.",
  ],
  ["limit", "Too many failed sign-ins. Wait a minute, then try again."],
  ["unavailable", "The server or the identity provider does not respond. Try again later."],
  ["method", "This sign-in method is not available."],
  ["path", "The sign-in link contains an invalid address."],
]);

export function SignInPage({ onSignIn }: { onSignIn: (token: string) => Promise<void> }) {
  const failed = FAILURES.get(new URLSearchParams(window.location.search).get("failed") ?? "");
  return (
    <main className={classes.page}>
      <Paper className={classes.card} withBorder>
        <Stack gap="lg">
          <Stack gap={4}>
            <img src="/favicon.svg" alt="" width={40} height={40} />
            <Title order={1}>Sign in to Fairlead</Title>
            <Text c="dimmed" size="sm">
              Every AI run gets the compute it asked for.
            </Text>
          </Stack>
          {failed && (
            <Alert color="red" role="alert">
              {failed}
            </Alert>
          )}
          <SignInForm onSignIn={onSignIn} />
        </Stack>
      </Paper>
    </main>
  );
}
