//! The token of the admin port.

use http::{Method, Request};

use crate::harness::{Answer, Client, Gateway, ReqBody, chat, config_for, request, sims};

/// Every page behind the token.
const PAGES: [(Method, &str); 8] = [
    (Method::GET, "/"),
    (Method::GET, "/config"),
    (Method::GET, "/pools"),
    (Method::GET, "/peers"),
    (Method::POST, "/explain"),
    (Method::POST, "/reload"),
    (Method::POST, "/drain/http://x:1"),
    (Method::GET, "/nothing"),
];

async fn ask(gateway: &Gateway, method: &Method, path: &str, authorization: Option<&str>) -> Answer {
    let mut request: Request<ReqBody> = request(method.clone(), path, chat("hello"));
    if let Some(value) = authorization {
        request.headers_mut().insert("authorization", value.parse().unwrap());
    }
    Client::h1(gateway.admin_addr()).await.call(request).await
}

#[tokio::test]
async fn a_token_file_guards_every_page_and_can_be_rotated() {
    let sims = sims(1).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let config = config_for(&sims).admin(&format!("token_file: \"{}\"", file.display()));
    let gateway = Gateway::start(&config).await;
    let wrong = ["Bearer s3cre", "Bearer s3crets", "Bearer ", "Bearer", "s3cret", "Basic s3cret", "bearer"];
    for (method, path) in PAGES {
        assert_eq!(ask(&gateway, &method, path, None).await.status, 401, "{path} without a token");
        for value in wrong {
            let answer = ask(&gateway, &method, path, Some(value)).await;
            assert_eq!(answer.status, 401, "{path} with {value:?}");
            assert!(!answer.text().contains("s3cret"), "{}", answer.text());
        }
        assert_ne!(ask(&gateway, &method, path, Some("Bearer s3cret")).await.status, 401, "{path} with the token");
    }
    let config = ask(&gateway, &Method::GET, "/config", Some("Bearer s3cret")).await.expect(200);
    assert!(!config.text().contains("s3cret"), "the token is shown: {}", config.text());

    std::fs::write(&file, "rotated").unwrap();
    ask(&gateway, &Method::GET, "/pools", Some("Bearer s3cret")).await.expect(401);
    ask(&gateway, &Method::GET, "/pools", Some("Bearer rotated")).await.expect(200);
    std::fs::write(&file, "").unwrap();
    ask(&gateway, &Method::GET, "/pools", Some("Bearer ")).await.expect(401);
    std::fs::remove_file(&file).unwrap();
    ask(&gateway, &Method::GET, "/pools", Some("Bearer rotated")).await.expect(401);
    gateway.metrics_port("/metrics").await.unwrap().expect(200);
    gateway.post("/v1/chat/completions", chat("hello")).await.expect(200);
}
