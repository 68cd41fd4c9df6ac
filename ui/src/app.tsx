/** The page as a whole: who is there, whether the server answers, and which part of it is looked at. */
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { useEffect } from "react";
import { connected } from "./api/connection";
import { isProblem } from "./api/problems";
import { Entrance } from "./features/sign-in/Entrance";
import { Pages } from "./pages";
import { ErrorBoundary } from "./shell/ErrorBoundary";
import { Notices } from "./shell/Notices";
import { theme } from "./theme";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server said no to, it would say no to again; only silence is worth a second try.
      retry: (count, error) => !isProblem(error) && count < 2,
    },
  },
});
// Styles that are made while the page runs carry the nonce of its Content-Security-Policy: Mantine's, and those with
// which a dialog keeps the page behind it from scrolling.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
setNonce(nonce);

export function App() {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <QueryClientProvider client={queries}>
        <Refresher />
        <Notices />
        <ErrorBoundary>
          <Entrance>
            <Pages />
          </Entrance>
        </ErrorBoundary>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** Once the server is back, what is shown is read anew. */
function Refresher() {
  const isConnected = connected.use();
  useEffect(() => {
    if (isConnected) void queries.invalidateQueries();
  }, [isConnected]);
  return null;
}
