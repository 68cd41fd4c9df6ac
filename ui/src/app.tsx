/** The root component: theme, query client, sign-in and pages. */
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { useEffect } from "react";
import { connected } from "./api/connection";
import { isProblem } from "./api/problems";
import { AuthGate } from "./features/sign-in/AuthGate";
import { Pages } from "./pages";
import { ErrorBoundary } from "./shell/ErrorBoundary";
import { Notices } from "./shell/Notices";
import { theme } from "./theme";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // Returning to a page within this time does not reload its data.
      staleTime: 5_000,
      // A retry would get the same error response. Only retry if the server did not respond.
      retry: (count, error) => !isProblem(error) && count < 2,
    },
  },
});
// Styles that Mantine and the scroll lock of dialogs add at run time need the Content-Security-Policy nonce.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
setNonce(nonce);

export function App() {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <QueryClientProvider client={queries}>
        <Refresher />
        <Notices />
        <ErrorBoundary>
          <AuthGate>
            <Pages />
          </AuthGate>
        </ErrorBoundary>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** Refetches everything when the server is reachable again. */
function Refresher() {
  const isConnected = connected.use();
  useEffect(() => {
    if (isConnected) void queries.invalidateQueries();
  }, [isConnected]);
  return null;
}
