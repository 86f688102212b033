//! The browser in which the user logs in. The suite's login page asks for nothing and redirects at
//! once, so it is enough to open it and to paste the URL of the redirect.

use tokio::sync::watch;
use zero_mcp::client::login::LoginUi;
use zero_runtime::tool::BoxFuture;

/// Opens the URL that it is shown.
pub(crate) struct HeadlessBrowser {
    http: reqwest::Client,
    shown: watch::Sender<Option<String>>,
}

impl HeadlessBrowser {
    pub(crate) fn new() -> Result<Self, String> {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let http = http.map_err(|error| error.to_string())?;
        Ok(Self { http, shown: watch::channel(None).0 })
    }
}

impl LoginUi for HeadlessBrowser {
    fn show_url(&self, url: &str) {
        self.shown.send_replace(Some(url.to_owned()));
    }

    fn read_pasted_url(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let mut shown = self.shown.subscribe();
            let url = shown.wait_for(Option::is_some).await.ok()?.clone()?;
            let page = self.http.get(url).send().await.ok()?;
            page.headers().get("location")?.to_str().ok().map(str::to_owned)
        })
    }
}
